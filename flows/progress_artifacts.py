"""Progress of a stage as a Prefect progress artifact, beside what the terminal shows."""

import logging
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact

from flows.display import Display, progress_text
from flows.execution import NodeOutcome
from flows.graph import Node
from flows.plan import PlannedNode

logger = logging.getLogger(__name__)
PROGRESS_SECONDS = 5.0


class ProgressArtifacts:
    """A display that passes everything on, and keeps a progress artifact for stages that take a while."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._artifact: UUID | None = None
        self._last = time.monotonic()

    def plan(self, plan: Sequence[PlannedNode]) -> None:
        """See `flows.display.Display`."""
        self._display.plan(plan)

    def start(self, node: Node) -> None:
        """See `flows.display.Display`."""
        self._display.start(node)

    def line(self, node: Node, text: str) -> None:
        """See `flows.display.Display`."""
        self._display.line(node, text)

    def note(self, node: Node, text: str, warning: bool) -> None:
        """See `flows.display.Display`."""
        self._display.note(node, text, warning)

    def finish(self, outcome: NodeOutcome) -> None:
        """See `flows.display.Display`."""
        if self._artifact is not None:
            self._send(100.0, outcome.status)
        self._display.finish(outcome)

    def fail(self, node: Node) -> None:
        """See `flows.display.Display`."""
        self._display.fail(node)

    def progress(self, node: Node, done: float, total: float | None, unit: str, message: str = "") -> None:
        """Pass on, and update the artifact at most every `PROGRESS_SECONDS`."""
        self._display.progress(node, done, total, unit, message)
        now = time.monotonic()
        if total and now - self._last >= PROGRESS_SECONDS:
            self._last = now
            self._send(min(100.0, 100.0 * done / total), f"{node.label}: {progress_text(done, total, unit, message)}")

    def _send(self, percent: float, description: str) -> None:
        try:
            if self._artifact is None:
                made: Any = create_progress_artifact(progress=percent, description=description)
                self._artifact = made
            else:
                update_progress_artifact(artifact_id=self._artifact, progress=percent, description=description)
        except Exception as error:  # the server's trouble must not end a stage
            logger.warning("progress artifact: %s", error)
