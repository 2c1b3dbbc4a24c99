"""A run from request to report, whoever runs the nodes (this process, or Prefect tasks)."""

import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from configs.load import compose
from configs.schema import RunConfig
from flows.display import Display
from flows.execution import NodeOutcome, execute, retryable
from flows.graph import Node, build_graph, matching, up_to
from flows.interrupt import ends_process, leave
from flows.model_limits import check_phases, model_limits
from flows.plan import PlannedNode, make_plan
from flows.runs import RunRecord, RunRequest, RunResult, load_report, new_run_id, stage_row
from flows.settings import Settings, open_store
from storage.store import ArtifactRef, Store
from tasks.contract import InputError, load_stage
from tasks.isolation import StageFailed

LOG_LINES = 10_000
WARNING_LINE = re.compile(r"WARNING [\w.]+: (.*)")  # as tasks.child logs
FAILED = "failed: "
PUSHED_AFTER = "card"
NodeRunner = Callable[[Node, Mapping[str, ArtifactRef], bool], NodeOutcome]


@dataclass(frozen=True)
class Tolerance:
    """Parts of a run that may be left out where their input cannot be used or their stage fails.

    Attributes:
        nodes: ids of the nodes that may be.
        without: a node that needs some of them, made to do without, given their ids and why each is left out.
    """

    nodes: frozenset[str]
    without: Callable[[Node, Mapping[str, str]], Node]


@dataclass(frozen=True)
class Preparation:
    """A request made concrete: configuration, stages, store and plan."""

    request: RunRequest
    run: RunConfig
    nodes: tuple[Node, ...]
    forced: tuple[str, ...]
    store: Store
    plan: tuple[PlannedNode, ...]
    run_id: str
    tolerance: Tolerance | None = None


def prepare(request: RunRequest, where: Settings) -> Preparation:
    """Read the configuration, find the data, and plan.

    Raises:
        ConfigError: the configuration cannot be used, or `until` or `rerun` names a stage that the run does not have.
        InputError: data or a source model is missing or cannot be used, or a phase does not fit the model.
    """
    run = compose(request.language, request.model, request.recipe, request.overrides)
    store = open_store(where)
    graph = build_graph(run, where.data_root, store.layout.root / "index")
    nodes = up_to(graph, request.until)
    if any(node.stage == "training" for node in nodes):
        check_phases(run, model_limits(run, where.data_root))
    forced = tuple(matching(nodes, request.rerun, "rerun"))
    return Preparation(request, run, nodes, forced, store, make_plan(nodes, store, forced), new_run_id(run))


def drive(prepared: Preparation, run_node: NodeRunner) -> RunResult:
    """Run the nodes in order, keep the record, and render the run's report.

    Args:
        prepared: what is to be run.
        run_node: runs one node, given the artifacts so far and whether it is forced.
    """
    started = time.monotonic()
    store = prepared.store
    record = RunRecord.start(prepared.run_id, prepared.request, prepared.run)
    record.save(store)
    artifacts: dict[str, ArtifactRef] = {}
    may_fail = frozenset() if prepared.tolerance is None else prepared.tolerance.nodes
    try:
        for planned in prepared.nodes:
            node = _with_what_is_there(planned, prepared.tolerance, record.left_out)
            if node is None:
                continue
            try:
                outcome = run_node(node, artifacts, node.id in prepared.forced)
            except (InputError, StageFailed) as error:
                if node.id not in may_fail:
                    raise
                record.left_out[node.id] = _reason(error)
                continue
            artifacts[node.id] = outcome.artifact
            record.outcomes.append(outcome)
            record.save(store)
        report, results = _write_report(record, store)
    except BaseException as error:
        record.finish(store, error)
        if ends_process(error):
            leave(error)
        raise
    record.finish(store, None)
    pushed = _push(prepared, record)
    seconds = round(time.monotonic() - started, 2)
    return RunResult(record.run_id, tuple(record.outcomes), results, report, seconds, pushed)


def _push(prepared: Preparation, record: RunRecord) -> dict[str, str | None] | None:
    """Push the final model where the configuration asks for it and the run has come to its end."""
    repository = prepared.run.push_to
    if repository is None or not any(outcome.stage == PUSHED_AFTER for outcome in record.outcomes):
        return None
    from flows.hub_push import push_finished  # huggingface_hub

    return push_finished(prepared.store, record.run_id, repository)


def _reason(error: InputError | StageFailed) -> str:
    """Why a node is left out, in a line or few; a failure is told from input that cannot be used by `FAILED`."""
    return str(error) if isinstance(error, InputError) else FAILED + str(error).partition("\n")[0]


def _with_what_is_there(node: Node, tolerance: Tolerance | None, left_out: dict[str, str]) -> Node | None:
    """`node`, or what it becomes without what is left out; None, and a line in `left_out`, where it is left out too."""
    missing = [source for source in node.inputs.values() if source in left_out]
    if not missing or tolerance is None:
        return node
    if node.id in tolerance.nodes:
        left_out[node.id] = left_out[missing[0]]
        return None
    return tolerance.without(node, left_out)


def _write_report(record: RunRecord, store: Store) -> tuple[str | None, tuple[dict[str, object], ...]]:
    data = load_report(store, record.outcomes)
    if data is None:
        return None, ()
    from tasks.report.pages import html  # jinja2

    rows = [stage_row(outcome) for outcome in record.outcomes]
    page = html(data, rows).encode()
    return store.write_run(record.run_id, "report.html", page), tuple(data["results"])


def show_and_execute(
    display: Display, prepared: Preparation, node: Node, artifacts: Mapping[str, ArtifactRef], force: bool
) -> NodeOutcome:
    """Execute `node`, with its progress on `display` and what it printed or logged in the run's `<node id>.log`.

    Raises:
        InputError, StageFailed: see `flows.execution.execute`.
    """
    lines: deque[str] = deque(maxlen=LOG_LINES)

    def on_line(text: str) -> None:
        lines.append(text)
        warning = WARNING_LINE.match(text)
        if warning:
            display.note(node, warning[1], True)
        else:
            display.line(node, text)

    display.start(node)
    try:
        outcome = execute(
            node,
            artifacts,
            prepared.store,
            force=force,
            progress=partial(display.progress, node),
            on_line=on_line,
            on_note=partial(display.note, node),
        )
    except BaseException:
        display.fail(node)
        raise
    finally:
        if lines:
            log = "".join(f"{line}\n" for line in lines).encode()
            prepared.store.write_run(prepared.run_id, f"{node.id}.log", log)
    display.finish(outcome)
    return outcome


def run_in_process(prepared: Preparation, display: Display) -> RunResult:
    """Run without Prefect: the same stages, store and records, no server."""

    def run_node(node: Node, artifacts: Mapping[str, ArtifactRef], force: bool) -> NodeOutcome:
        retries = load_stage(node.stage).retries
        for attempt in range(retries + 1):
            try:
                return show_and_execute(display, prepared, node, artifacts, force)
            except Exception as error:
                if attempt == retries or not retryable(error):
                    raise
                display.note(node, f"failed, trying again: {error}", True)
        raise AssertionError("unreachable")

    return drive(prepared, run_node)


def summary_rows(results: Sequence[Mapping[str, object]]) -> tuple[list[str], list[list[str]]]:
    """The results as a table: header (metric and models) and one row per metric.

    Args:
        results: rows with model, metric, value and unit.
    """
    models = list(dict.fromkeys(str(row["model"]) for row in results))
    metrics = list(dict.fromkeys(str(row["metric"]) for row in results))
    values = {(str(row["metric"]), str(row["model"])): row["value"] for row in results}
    table = []
    for metric in metrics:
        cells = [values.get((metric, model)) for model in models]
        table.append([metric, *("" if cell is None else f"{float(str(cell)):,.3f}" for cell in cells)])
    return ["metric", *models], table
