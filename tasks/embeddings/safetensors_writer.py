"""Safetensors files written tensor by tensor, and the index over several of them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch

from tasks.embeddings.safetensors_reader import INDEX, SINGLE

_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "U64": 64, "I32": 32, "U32": 32, "I16": 16, "U16": 16}
_BLOCK_ROWS = 1 << 22


@dataclass(frozen=True)
class NewTensor:
    """A tensor to be written: `chunks` gives its `size` bytes, row-major, little-endian, when its turn comes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    chunks: Iterable[bytes | bytearray]


def write_safetensors(path: Path, tensors: Iterable[NewTensor]) -> None:
    """Write a safetensors file; one chunk is held at a time.

    Wide number formats come first and names are in order, so every tensor is aligned and equal tensors give equal files
    (the layout of the safetensors library).

    Raises:
        ValueError: a tensor's chunks are not as long as it says.
    """
    ordered = sorted(tensors, key=lambda tensor: (-_BITS.get(tensor.dtype, 8), tensor.dtype, tensor.name))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in ordered:
        offsets = [end, end := end + tensor.size]
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in ordered:
            written = sum(file.write(chunk) for chunk in tensor.chunks)
            if written != tensor.size:
                raise ValueError(f"{tensor.name}: {written} bytes given, {tensor.size} announced")


def tensor_bytes(tensor: torch.Tensor) -> Iterator[bytes]:
    """The bytes of `tensor`, in pieces."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    for start in range(0, len(flat), _BLOCK_ROWS):
        yield flat[start : start + _BLOCK_ROWS].numpy().tobytes()


def shard_names(count: int) -> list[str]:
    """File names of a model in `count` files."""
    return [SINGLE] if count == 1 else [f"model-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]


def write_index(folder: Path, places: dict[str, str], total_bytes: int, parameters: int) -> None:
    """Write the index over several files: `places` gives the file of each tensor."""
    index = {
        "metadata": {"total_parameters": parameters, "total_size": total_bytes},
        "weight_map": dict(sorted(places.items())),
    }
    (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def size_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor of a floating number format."""
    return prod(shape) * _BITS[dtype] // 8
