"""Starting a flow from the command line, in this process, on the configured or an ephemeral Prefect server."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flows.runs import RunRequest

if TYPE_CHECKING:
    from flows.comparison import ComparisonRequest


def run_flow(request: RunRequest) -> dict[str, Any]:
    """Run `adapt-language` for `request`; the flow's result.

    Paths are taken too, besides names: the parameter check, which serves the UI's form, is passed by.

    Raises:
        InputError, StageFailed, ConfigError: as in the flow.
    """
    from flows.adapt_language import adapt_language

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


def run_comparison(request: "ComparisonRequest") -> dict[str, Any]:
    """Run `compare-initialisers` for `request`; the flow's result. As for `run_flow`.

    Raises:
        InputError, StageFailed, ConfigError: as in the flow.
    """
    from flows.compare_initialisers import compare_initialisers

    flow: Callable[..., Any] = compare_initialisers.with_options(validate_parameters=False)
    result: dict[str, Any] = flow(
        language=request.language,
        initialisers=list(request.initialisers),
        model=request.model,
        recipe=request.recipe,
        overrides=list(request.overrides),
        rerun=list(request.rerun),
    )
    return result
