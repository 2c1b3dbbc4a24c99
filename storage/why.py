"""Why a stage has to run: what changed since the artifact that is nearest to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from storage.artifact import BuildRequest
from storage.keys import canonical_json
from storage.manifest import Manifest

SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class ConfigChange:
    """A value of the configuration that differs.

    Attributes:
        path: dotted path in the stage's configuration; items of lists by position, as in `phases[0].steps`.
        old: JSON text of the value in the artifact, None if it has none.
        new: JSON text of the value that is asked for, None if there is none.
    """

    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Difference:
    """What lies between an artifact and a request of the same stage.

    Attributes:
        stage: the stage.
        key: key of the artifact.
        version: (artifact's, requested) version where they differ.
        config: differing values, by path.
        inputs: (name, 'changed', 'added' or 'removed') of inputs, by name.
    """

    stage: str
    key: str
    version: tuple[int, int] | None
    config: tuple[ConfigChange, ...]
    inputs: tuple[tuple[str, str], ...]

    @property
    def count(self) -> int:
        """Number of differences."""
        return (self.version is not None) + len(self.config) + len(self.inputs)

    def describe(self) -> list[str]:
        """A line for each difference: version first, then the configuration, then inputs."""
        lines = [] if self.version is None else [f"version {self.version[0]} -> {self.version[1]}"]
        lines += [f"{change.path}: {_shown(change.old)} -> {_shown(change.new)}" for change in self.config]
        return lines + [f"input {name} {what}" for name, what in self.inputs]


def nearest(manifests: Iterable[Manifest], request: BuildRequest) -> Difference | None:
    """How `request` differs from the artifact of its stage that is nearest to it.

    Nearest is the one with the fewest differing config values, inputs and version; of equals the youngest.

    Args:
        manifests: manifests to choose from; those of other stages are passed over.
        request: what is asked for.

    Returns:
        The difference, or None if no artifact of the stage is there.
    """
    best: tuple[tuple[int, str, str], Difference] | None = None
    for manifest in manifests:
        if manifest.stage != request.stage:
            continue
        difference = compare(manifest, request)
        rank = (-difference.count, manifest.started_at, manifest.key)
        if best is None or rank > best[0]:
            best = rank, difference
    return None if best is None else best[1]


def compare(manifest: Manifest, request: BuildRequest) -> Difference:
    """What lies between the artifact of `manifest` and `request`."""
    old, new = _leaves(manifest.config), _leaves(request.config)
    config = tuple(
        ConfigChange(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    )
    version = None if manifest.version == request.version else (manifest.version, request.version)
    return Difference(manifest.stage, manifest.key, version, config, _input_changes(manifest, request))


def _input_changes(manifest: Manifest, request: BuildRequest) -> tuple[tuple[str, str], ...]:
    changes = []
    for name in sorted(manifest.inputs.keys() | request.inputs.keys()):
        if name not in manifest.inputs:
            changes.append((name, "added"))
        elif name not in request.inputs:
            changes.append((name, "removed"))
        elif manifest.inputs[name].digest != request.inputs[name].digest:
            changes.append((name, "changed"))
    return tuple(changes)


def _leaves(value: Any, path: str = "") -> dict[str, str]:
    """JSON text of every value that is not a filled object or list, by dotted path."""
    if isinstance(value, Mapping) and value:
        items = [(f"{path}.{name}" if path else str(name), item) for name, item in value.items()]
    elif isinstance(value, (list, tuple)) and value:
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    elif not path:
        return {}
    else:
        return {path: canonical_json(value)}
    return {leaf: text for name, item in items for leaf, text in _leaves(item, name).items()}


def _shown(text: str | None) -> str:
    if text is None:
        return "(not set)"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
