"""The weights of a model folder as stored tensors, read piece by piece without mapping a file into memory."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from tasks.contract import InputError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
CHUNK_BYTES = 16 * 2**20
DTYPES: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a safetensors file.

    Attributes:
        name: its name.
        file: the file.
        dtype: safetensors' name of its number format.
        shape: its shape.
        start: first byte, counted from the beginning of the file.
        size: its length in bytes.
        role: what its model is, for errors: "source model".
    """

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int
    role: str

    def chunks(self, most: int = CHUNK_BYTES) -> Iterator[bytearray]:
        """Its bytes in pieces of at most `most` bytes, a multiple of 8."""
        with self.file.open("rb") as file:
            file.seek(self.start)
            left = self.size
            while left:
                chunk = bytearray(min(most, left))
                if file.readinto(chunk) != len(chunk):
                    raise InputError(f"{self.role}: {self.file.name} ends inside {self.name!r}; copy it again")
                left -= len(chunk)
                yield chunk

    def read(self) -> torch.Tensor:
        """The whole tensor.

        Raises:
            InputError: its number format is not a floating one of 16 bits or more.
        """
        return self.rows(0, self.shape[0]) if self.shape else self._read(0, self.size).reshape(())

    def rows(self, start: int, end: int) -> torch.Tensor:
        """The rows `start` to `end` (not included) along the first dimension; raises as `read` does."""
        row_bytes = self.size // self.shape[0] if self.shape[0] else 0
        return self._read(start * row_bytes, end * row_bytes).reshape(end - start, *self.shape[1:])

    def _read(self, start: int, end: int) -> torch.Tensor:
        if self.dtype not in DTYPES:
            raise InputError(
                f"{self.role}: {self.name!r} is stored as {self.dtype}; quantised tables cannot be averaged: "
                f"take a version of the model in one of {', '.join(DTYPES)}"
            )
        buffer = bytearray(end - start)
        with self.file.open("rb") as file:
            file.seek(self.start + start)
            if file.readinto(buffer) != len(buffer):
                raise InputError(f"{self.role}: {self.file.name} ends inside {self.name!r}; copy it again")
        return (
            torch.frombuffer(buffer, dtype=DTYPES[self.dtype]) if buffer else torch.empty(0, dtype=DTYPES[self.dtype])
        )


@dataclass(frozen=True)
class Shard:
    """A safetensors file and its tensors, in the order in which they are stored."""

    file: Path
    tensors: tuple[StoredTensor, ...]


def read_shards(folder: Path, role: str) -> tuple[Shard, ...]:
    """The safetensors files of the model in `folder`; nothing but their headers is read.

    Args:
        folder: model folder.
        role: what it is, for errors: "source model".

    Raises:
        InputError: no safetensors weights, a shard missing or damaged, or an index that does not fit the shards or
            names a file outside the folder.
    """
    if (folder / SINGLE).is_file():
        return (_read_shard(folder / SINGLE, role),)
    if not (folder / INDEX).is_file():
        found = sorted(path.name for kind in _PICKLES for path in folder.glob(kind))
        raise InputError(
            f"{role}: {folder} has no .safetensors weights (neither {SINGLE} nor {INDEX}; found: "
            f"{', '.join(found) or 'no weights'}); pickled weights are not loaded: convert them to safetensors first"
        )
    places = _read_index(folder / INDEX, role)
    names = sorted(set(places.values()))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{role}: {folder} lacks {len(missing)} of {len(names)} weight files named in {INDEX} "
            f"({', '.join(missing[:5])}); copy or download them again"
        )
    shards = tuple(_read_shard(folder / name, role) for name in names)
    _check_index(places, shards, role)
    return shards


def _read_index(path: Path, role: str) -> dict[str, str]:
    """Tensor name -> file name, every file name a plain name in the index's own folder."""
    try:
        places = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{role}: {path} is no index of weights: {error!r}") from error
    if not isinstance(places, dict) or not places:
        raise InputError(f"{role}: {path} names no weights")
    for tensor, name in places.items():
        plain = isinstance(name, str) and name == Path(name).name and "\\" not in name and name.endswith(".safetensors")
        if not plain:
            raise InputError(
                f"{role}: {path.name} places {tensor!r} in {name!r}; only .safetensors files in the model's own "
                "folder are read"
            )
    return places


def _check_index(places: dict[str, str], shards: tuple[Shard, ...], role: str) -> None:
    found: dict[str, str] = {}
    for shard in shards:
        for tensor in shard.tensors:
            if tensor.name in found:
                raise InputError(f"{role}: {tensor.name!r} is both in {found[tensor.name]} and in {shard.file.name}")
            found[tensor.name] = shard.file.name
    wrong = sorted(name for name, file in places.items() if found.get(name) != file)
    if wrong:
        raise InputError(
            f"{role}: {INDEX} places {wrong[0]!r} in {places[wrong[0]]}, which does not hold it "
            f"({len(wrong)} such tensors); index and weight files are of different models"
        )


def _read_shard(path: Path, role: str) -> Shard:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt"):  # checks the header: sizes, offsets, no overlap
            pass
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{role}: {path} is damaged ({error}); copy or download it again") from error
    tensors = [
        StoredTensor(
            name=name,
            file=path,
            dtype=entry["dtype"],
            shape=tuple(entry["shape"]),
            start=8 + length + entry["data_offsets"][0],
            size=entry["data_offsets"][1] - entry["data_offsets"][0],
            role=role,
        )
        for name, entry in header.items()
        if name != "__metadata__"
    ]
    return Shard(path, tuple(sorted(tensors, key=lambda tensor: (tensor.start, tensor.name))))
