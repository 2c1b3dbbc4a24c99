"""Keys and digests: what decides a stage's answer, as one sha256.

A key is made from the stage's name, its version, exactly the configuration it reads and the content digests of its
inputs; never from paths, dates, hosts or class names.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from storage.files import naming

HASH_BLOCK_BYTES = 1 << 20


def canonical_json(value: Any) -> str:
    """The one JSON text of `value`: sorted keys, no spaces, characters as they are (UTF-8 when encoded).

    Equal values give equal texts and unequal values unequal ones. Types count: `1` gives `1`, `1.0` gives `1.0` and
    `True` gives `true`, so an integer and the float of the same size are *different* values. (A configuration field
    has one type, so the same configuration cannot give both.) A tuple is written as a list.

    Raises:
        TypeError: the value holds NaN, an infinity, a set, a path, bytes, a key that is no string, or anything else
            that is not a plain dict, list, tuple, str, int, float, bool or None; the message says where.
    """
    text = json.dumps(_plain(value, "value"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TypeError(f"value: text with a lone surrogate cannot be written as UTF-8 ({error.reason})") from error
    return text


def _plain(value: Any, where: str) -> Any:
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return value
    if kind is float:
        if not math.isfinite(value):
            raise TypeError(f"{where}: {value} is not a JSON number")
        return value
    if isinstance(value, Mapping):
        return {_plain_key(name, where): _plain(item, f"{where}.{name}") for name, item in value.items()}
    if kind in (list, tuple):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise TypeError(f"{where}: {value!r} of type {kind.__name__} is not a JSON value; give a plain one")


def _plain_key(name: Any, where: str) -> str:
    if type(name) is not str:
        raise TypeError(f"{where}: key {name!r} of type {type(name).__name__}; JSON keys are strings")
    return name


def text_digest(text: str) -> str:
    """Sha256 of the UTF-8 bytes of `text`, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def stage_key(stage: str, version: int, config: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """The key of a stage's artifact: sha256, 64 hexadecimal digits.

    Args:
        stage: the stage's name.
        version: raised by hand whenever the same config and inputs give another answer.
        config: exactly what the stage reads, as JSON values.
        inputs: content digest (or revision) of each input, by input name.

    Raises:
        TypeError: something is not a JSON value (see `canonical_json`).
    """
    parts = {"stage": stage, "version": version, "config": config, "inputs": dict(inputs)}
    return text_digest(canonical_json(parts))


def content_digest(files: Iterable[tuple[str, str]]) -> str:
    """Sha256 over the (relative path, sha256) pairs of `files`, in the order of their paths.

    Raises:
        ValueError: a path is there twice.
    """
    pairs = sorted(files)
    for (path, _), (following, _) in pairwise(pairs):
        if path == following:
            raise ValueError(f"file {path!r} is listed twice")
    return text_digest(canonical_json([list(pair) for pair in pairs]))


def file_digest(path: Path) -> str:
    """Sha256 of the bytes of the file `path`, in hexadecimal; reads blocks of 1 MiB.

    Raises:
        OSError: the file cannot be read; names it.
    """
    digest = hashlib.sha256()
    block = bytearray(HASH_BLOCK_BYTES)
    view = memoryview(block)
    with naming(path), path.open("rb", buffering=0) as file:
        while count := file.readinto(block):
            digest.update(view[:count])
    return digest.hexdigest()


def folder_files(path: Path, names: Iterable[str] | None = None) -> list[tuple[str, Path]]:
    """The files that make up a folder from outside the store, as (relative path, path), sorted.

    Symbolic links are followed (model caches are made of them). Without `names`, files and folders whose name starts
    with '.' are left out: they hold version control and download bookkeeping, not content.

    Raises:
        FileNotFoundError: the folder, or a file of `names`, is not there.
        NotADirectoryError: `path` is a file.
        ValueError: there is no file at all.
    """
    if names is not None:
        found = [(name, path / name) for name in sorted(set(names))]
        for _, file in found:
            if not file.is_file():
                raise FileNotFoundError(2, "no such file", str(file))
    else:
        found = sorted(_walk(path, "", (path.resolve(),)))
    if not found:
        raise ValueError(f"folder {path} holds no files")
    return found


def _walk(folder: Path, prefix: str, parents: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            real = entry.resolve()
            if real in parents:
                raise ValueError(f"folder {entry} is a link to a folder that contains it")
            yield from _walk(entry, f"{prefix}{entry.name}/", (*parents, real))
        else:
            yield f"{prefix}{entry.name}", entry


def folder_digest(path: Path, names: Iterable[str] | None = None) -> str:
    """Content digest of a folder from outside the store (see `folder_files` for what counts).

    Args:
        path: the folder.
        names: relative paths of the files that matter; None takes all that are not hidden.

    Raises:
        OSError: something is missing or cannot be read.
        ValueError: there is no file at all.
    """
    return content_digest((name, file_digest(file)) for name, file in folder_files(path, names))
