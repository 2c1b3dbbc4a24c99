"""The manifest of an artifact: what made it, what is in it, and a checksum over all of that."""

import dataclasses
import json
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage.keys import canonical_json, content_digest, stage_key, text_digest
from storage.names import check_key, check_relative_path, check_stage

MANIFEST_FORMAT = 1
MANIFEST_NAME = "manifest.json"


class DamagedArtifact(Exception):
    """An artifact that cannot be believed.

    Attributes:
        reason: what is wrong with it, in words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class FileEntry:
    """One file of an artifact.

    Attributes:
        path: relative to the artifact's folder, '/' between parts.
        size: bytes.
        sha256: of its bytes, in hexadecimal.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class InputEntry:
    """One input of a stage.

    Attributes:
        stage: stage that made it; "" for something from outside the store.
        key: its key; "" for something from outside the store.
        digest: content digest, or the revision of something from outside. Only this is in the reader's key.
    """

    stage: str
    key: str
    digest: str


@dataclass(frozen=True)
class Manifest:
    """What is known of an artifact.

    Attributes:
        format: version of this file format.
        stage: name of the stage.
        version: the stage's declared version.
        key: key of the artifact (follows from stage, version, config and the inputs' digests).
        config: the configuration that is in the key, as JSON values.
        inputs: the inputs by name.
        files: the files, sorted by path, without the manifest.
        digest: content digest over the files' paths and sha256.
        bytes: total size of the files.
        summary: a few figures for people, as JSON values; not in the digest.
        started_at: when the build began, ISO 8601 in UTC.
        seconds: how long the build took.
        host: name of the machine.
        python: version of Python.
        libraries: versions of the libraries that may shape the content.
        checksum: sha256 of the canonical JSON of all other fields; filled in by `sealed`.
    """

    format: int
    stage: str
    version: int
    key: str
    config: Mapping[str, Any]
    inputs: Mapping[str, InputEntry]
    files: tuple[FileEntry, ...]
    digest: str
    bytes: int
    summary: Mapping[str, Any]
    started_at: str
    seconds: float
    host: str
    python: str
    libraries: Mapping[str, str]
    checksum: str = ""

    def sealed(self) -> "Manifest":
        """This manifest with the checksum that fits it."""
        return dataclasses.replace(self, checksum=_checksum(_to_dict(self)))


def manifest_json(manifest: Manifest) -> bytes:
    """The content of manifest.json, readable for people."""
    return (json.dumps(_to_dict(manifest), ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode("utf-8")


def parse_manifest(data: bytes) -> Manifest:
    """The manifest in the bytes of a manifest.json, with everything about it checked but the files themselves.

    Raises:
        DamagedArtifact: it is truncated or altered, of another format, or does not agree with itself.
    """
    try:
        raw = json.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DamagedArtifact(f"{MANIFEST_NAME} is not JSON ({len(data)} bytes: {error})") from error
    if not isinstance(raw, dict):
        raise DamagedArtifact(f"{MANIFEST_NAME} holds a {type(raw).__name__} instead of an object")
    if raw.get("format") != MANIFEST_FORMAT:
        raise DamagedArtifact(
            f"{MANIFEST_NAME} has format {raw.get('format')!r}; this program reads format {MANIFEST_FORMAT}"
        )
    try:
        manifest = _from_dict(raw)
        if raw["checksum"] != _checksum(raw):
            raise DamagedArtifact(f"{MANIFEST_NAME} was altered (its checksum differs)")
        _check_agreement(manifest)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedArtifact(f"{MANIFEST_NAME} is not complete or has a wrong value ({error!r})") from error
    return manifest


def _check_agreement(manifest: Manifest) -> None:
    inputs = {name: entry.digest for name, entry in manifest.inputs.items()}
    if manifest.key != stage_key(manifest.stage, manifest.version, manifest.config, inputs):
        raise DamagedArtifact(f"{MANIFEST_NAME}: the key does not follow from the stage, config and inputs in it")
    if manifest.digest != content_digest((file.path, file.sha256) for file in manifest.files):
        raise DamagedArtifact(f"{MANIFEST_NAME}: the digest does not follow from the files in it")


def _to_dict(manifest: Manifest) -> dict[str, Any]:
    values = {field.name: getattr(manifest, field.name) for field in dataclasses.fields(manifest)}
    values["inputs"] = {name: dataclasses.asdict(entry) for name, entry in manifest.inputs.items()}
    values["files"] = [dataclasses.asdict(file) for file in manifest.files]
    return values


def _checksum(values: Mapping[str, Any]) -> str:
    return text_digest(canonical_json({name: value for name, value in values.items() if name != "checksum"}))


def _typed(values: Mapping[str, Any], name: str, kind: type) -> Any:
    value = values[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{name}: {type(value).__name__} instead of {kind.__name__}")
    return value


def _from_dict(raw: Mapping[str, Any]) -> Manifest:
    values = dict(raw)
    for field in ("key", "stage", "digest", "started_at", "host", "python", "checksum"):
        _typed(values, field, str)
    for field in ("version", "bytes"):
        _typed(values, field, int)
    for field in ("config", "inputs", "summary", "libraries"):
        _typed(values, field, dict)
    check_stage(values["stage"])
    check_key(values["key"])
    check_key(values["digest"])
    values["seconds"] = float(values["seconds"])
    values["files"] = tuple(_file_entry(file) for file in _typed(values, "files", list))
    values["inputs"] = {
        name: InputEntry(**{part: _typed(entry, part, str) for part in ("stage", "key", "digest")})
        for name, entry in values["inputs"].items()
    }
    return Manifest(**values)


def _file_entry(raw: Mapping[str, Any]) -> FileEntry:
    path, size, sha256 = _typed(raw, "path", str), _typed(raw, "size", int), _typed(raw, "sha256", str)
    return FileEntry(check_relative_path(path), size, check_key(sha256))


def summary_values(value: Any, where: str = "summary") -> Any:
    """`value` as JSON values for the summary: numpy numbers become plain ones, NaN and infinities become text.

    A summary is for people and must not be what makes a long stage fail.

    Raises:
        TypeError: something is neither a number, text, None, list, tuple nor a mapping with text as keys.
    """
    if value is None or isinstance(value, (str, bool)):
        return value if value is None or isinstance(value, bool) else str(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, Mapping):
        return {_summary_key(name, where): summary_values(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [summary_values(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise TypeError(f"{where}: {value!r} of type {type(value).__name__} is not a JSON value")


def _summary_key(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{where}: key {name!r} of type {type(name).__name__}; keys are strings")
    return str(name)
