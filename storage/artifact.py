"""What goes into the store and comes out of it: requests, references and outcomes."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from storage.keys import stage_key
from storage.manifest import InputEntry, Manifest
from storage.names import check_key, check_stage

Status = Literal["cached", "built", "rebuilt-same"]


@dataclass(frozen=True)
class ArtifactRef:
    """A small reference to an artifact; all a caller needs to hand on.

    Attributes:
        stage: stage that made it.
        key: its key.
        digest: its content digest.
        bytes: total size of its files.
        seconds: how long it took to build.
    """

    stage: str
    key: str
    digest: str
    bytes: int
    seconds: float

    @classmethod
    def of(cls, manifest: Manifest) -> "ArtifactRef":
        """The reference to the artifact that `manifest` describes."""
        return cls(manifest.stage, manifest.key, manifest.digest, manifest.bytes, manifest.seconds)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ArtifactRef":
        """The reference in `values` (see `to_dict`; other keys are ignored).

        Raises:
            KeyError: a field is missing.
        """
        return cls(**{part.name: values[part.name] for part in dataclasses.fields(cls)})

    def as_input(self) -> InputEntry:
        """This artifact as the input of another stage."""
        return InputEntry(self.stage, self.key, self.digest)


@dataclass(frozen=True)
class Lookup:
    """What the store knows under a key.

    Attributes:
        artifact: the artifact, if it is there and intact.
        problem: what is wrong with it, in words, if it is there and damaged. Both None: nothing is there.
    """

    artifact: ArtifactRef | None
    problem: str | None = None


@dataclass(frozen=True)
class BuildRequest:
    """What decides an artifact.

    Attributes:
        stage: name of the stage.
        version: its declared version.
        config: exactly the configuration it reads, as JSON values.
        inputs: its inputs by name; only their digests are in the key.
    """

    stage: str
    version: int
    config: Mapping[str, Any]
    inputs: Mapping[str, InputEntry] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The artifact's key.

        Raises:
            TypeError: the config holds something that is no JSON value.
        """
        digests = {name: entry.digest for name, entry in self.inputs.items()}
        return stage_key(check_stage(self.stage), self.version, self.config, digests)


@dataclass(frozen=True)
class Built:
    """What a build returns besides its files.

    Attributes:
        summary: a few figures for people, kept in the manifest, outside the digest.
        measurements: rows of one table of times and speeds, kept beside the artifact, outside the digest.
    """

    summary: Mapping[str, Any] = field(default_factory=dict)
    measurements: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class BuildOutcome:
    """How a request was answered.

    Attributes:
        artifact: the artifact.
        status: 'cached': it was there; 'built': it is new; 'rebuilt-same': built again with the same content as the
            intact artifact that was there, which stayed.
    """

    artifact: ArtifactRef
    status: Status


def checked_ref(stage: str, key: str) -> tuple[str, str]:
    """`stage` and `key`, which are safe as parts of a path.

    Raises:
        ValueError: one of them is not.
    """
    return check_stage(stage), check_key(key)
