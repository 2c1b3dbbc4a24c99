"""The record of a run: what it was asked, what became of each stage, and its own copy of the report."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from configs.schema import RunConfig
from flows.execution import NodeOutcome
from flows.graph import run_name
from storage.store import Store

REPORTS = ("report", "comparison")


@dataclass(frozen=True)
class RunRequest:
    """What a run is asked to do.

    Attributes:
        language: name of the target language.
        model: name of the source model, or the folder of one.
        recipe: name of the recipe.
        overrides: 'key=value' texts.
        rerun: stages (or node ids) to run again although they are cached.
        until: last stage to run.
    """

    language: str
    model: str
    recipe: str
    overrides: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    until: str | None = None


def new_run_id(run: RunConfig) -> str:
    """The time, the run's name and four random bytes."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{run_name(run)}-{secrets.token_hex(4)}"


@dataclass
class RunRecord:
    """Kept as run.json under the store's runs folder, rewritten after every stage."""

    run_id: str
    request: RunRequest
    config: dict[str, Any]
    started_at: str
    status: str = "running"
    finished_at: str | None = None
    error: str | None = None
    outcomes: list[NodeOutcome] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def start(cls, run_id: str, request: RunRequest, run: RunConfig) -> "RunRecord":
        """A record of a run that begins now."""
        return cls(run_id, request, run.model_dump(mode="json"), datetime.now(UTC).isoformat(timespec="seconds"))

    def as_json(self) -> dict[str, Any]:
        """The record as plain JSON types; `artifacts` is what garbage collection keeps."""
        return {
            "run_id": self.run_id,
            "language": self.config["language"],
            "model": self.config["model"]["name"],
            "recipe": self.config["recipe"],
            "overrides": list(self.request.overrides),
            "rerun": list(self.request.rerun),
            "until": self.request.until,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "status": self.status,
            "error": self.error,
            "stages": [stage_row(outcome) for outcome in self.outcomes],
            "left_out": self.left_out,
            "artifacts": [{"stage": item.artifact.stage, "key": item.artifact.key} for item in self.outcomes],
            "config": self.config,
        }

    def save(self, store: Store) -> None:
        """Write run.json."""
        data = json.dumps(self.as_json(), indent=1, ensure_ascii=False).encode()
        store.write_run(self.run_id, "run.json", data)

    def finish(self, store: Store, error: BaseException | None) -> None:
        """Set the final status and save."""
        self.status = "completed" if error is None else "failed"
        self.error = None if error is None else f"{type(error).__name__}: {error}"
        self.finished_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.save(store)


def stage_row(outcome: NodeOutcome) -> dict[str, Any]:
    """A stage's line in run.json and in the report."""
    return {
        "node": outcome.node,
        "stage": outcome.stage,
        "label": outcome.label,
        "status": outcome.status,
        "key": outcome.artifact.key,
        "digest": outcome.artifact.digest,
        "bytes": outcome.artifact.bytes,
        "seconds": outcome.seconds,
        "built_in_seconds": outcome.artifact.seconds,
    }


@dataclass(frozen=True)
class RunResult:
    """What a finished run gives back.

    Attributes:
        run_id: id of the run's record.
        outcomes: one per stage, in order.
        results: rows of the report's table of results (model, metric, value, unit).
        report: path or URL of the run's HTML report; None when the run ended before the report stage.
        seconds: time the run took.
        pushed: what became of the push to the Hugging Face hub (see `flows.hub_push.push_finished`); None: none.
    """

    run_id: str
    outcomes: tuple[NodeOutcome, ...]
    results: tuple[dict[str, Any], ...]
    report: str | None
    seconds: float
    pushed: dict[str, str | None] | None = None

    def as_json(self) -> dict[str, Any]:
        """The result as plain JSON types."""
        return {
            "run_id": self.run_id,
            "stages": [stage_row(outcome) for outcome in self.outcomes],
            "results": list(self.results),
            "report": self.report,
            "seconds": self.seconds,
            "pushed": self.pushed,
        }


def load_report(store: Store, outcomes: Sequence[NodeOutcome]) -> dict[str, Any] | None:
    """The data of the run's report; None when the run has none."""
    built = [outcome for outcome in outcomes if outcome.stage in REPORTS]
    if not built:
        return None
    data: dict[str, Any] = json.loads((store.open(built[-1].artifact) / "report.json").read_text(encoding="utf-8"))
    return data
