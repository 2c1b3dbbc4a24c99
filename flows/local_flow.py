"""Starting the flow from the command line, in this process, on the configured or an ephemeral Prefect server."""

from collections.abc import Callable
from typing import Any

from flows.adapt_language import adapt_language
from flows.runs import RunRequest


def run_flow(request: RunRequest) -> dict[str, Any]:
    """Run `adapt-language` for `request`; the flow's result.

    Paths are taken too, besides names: the parameter check, which serves the UI's form, is passed by.

    Raises:
        InputError, StageFailed, ConfigError: as in the flow.
    """
    flow: Callable[..., Any] = adapt_language.with_options(validate_parameters=False)
    result: dict[str, Any] = flow(
        language=request.language,
        model=request.model,
        recipe=request.recipe,
        overrides=list(request.overrides),
        rerun=list(request.rerun),
        until=request.until,
    )
    return result
