"""A causal language model with its vocabulary replaced, written without ever being loaded whole."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from configs.schema import InitialModelConfig
from tasks.contract import InputError, Progress, no_progress
from tasks.embeddings.model_config import new_config, new_generation_config, save_configs
from tasks.embeddings.new_table import NewRows, TableName, new_table
from tasks.embeddings.safetensors_reader import DTYPES, Shard, StoredTensor, read_shards
from tasks.embeddings.safetensors_writer import (
    NewTensor,
    shard_names,
    size_of,
    tensor_bytes,
    write_index,
    write_safetensors,
)
from tasks.embeddings.vocabulary_tables import VocabularyTables, find_tables, meta_model, read_config

_STORED_AS = {"float32": "F32", "bfloat16": "BF16"}


@dataclass(frozen=True)
class SourceModel:
    """A model folder, of which nothing but the headers has been read.

    Attributes:
        folder: where it is.
        model: its modules without weights (on the meta device).
        shards: its files.
        tables: its vocabulary tables.
    """

    folder: Path
    model: Any
    shards: tuple[Shard, ...]
    tables: VocabularyTables

    def named_tables(self) -> dict[TableName, StoredTensor]:
        """The vocabulary tables by name; no LM head where it is tied, no bias where there is none."""
        named: dict[TableName, StoredTensor | None] = {
            "input embeddings": self.tables.input,
            "LM head": self.tables.head,
            "LM head's bias": self.tables.bias,
        }
        return {name: tensor for name, tensor in named.items() if tensor is not None}


@dataclass(frozen=True)
class WrittenModel:
    """What was written.

    Attributes:
        rows: rows of the vocabulary tables.
        parameters: numbers in all tensors.
        bytes: bytes of all tensors.
        dtype: number format of the vocabulary tables, "bfloat16".
        tied: whether the LM head is the input embeddings.
        drawn: rows drawn at random.
    """

    rows: int
    parameters: int
    bytes: int
    dtype: str
    tied: bool
    drawn: int


def open_source(folder: Path) -> SourceModel:
    """The causal language model in `folder`: configuration, headers of its safetensors files, and its tables' names.

    Raises:
        InputError: no model that transformers knows, no safetensors weights, damaged or missing files, no vocabulary
            tables.
    """
    config = read_config(folder)
    shards = read_shards(folder)
    model = meta_model(config)
    return SourceModel(folder, model, shards, find_tables(model, shards))


def write_initial_model(
    source: SourceModel,
    rows: Callable[[TableName], Sequence[NewRows]],
    tokenizer: Any,
    config: InitialModelConfig,
    out: Path,
    progress: Progress = no_progress,
) -> WrittenModel:
    """Write `source` with new vocabulary tables into `out`, each table from its own rows; all else is copied.

    Tensors are copied piece by piece into files that correspond to the source's, so beside one old and one new table
    nothing large is held. A tensor is changed to the number format asked for before rows are made of it.

    Args:
        source: the source model.
        rows: the new rows of a table, for each vocabulary that the model shall have; called once a table.
        tokenizer: the new tokenizer, whose special tokens the configuration gets.
        config: number format, lengths of rows, padding.
        out: folder; gets config.json, generation_config.json and the weights.
        progress: told about bytes written.

    Raises:
        InputError: the mapping does not belong to the source model, or the source's weights are not finite.
    """
    names = shard_names(len(source.shards))
    tables = {tensor.name: name for name, tensor in source.named_tables().items()}
    writer = _Writer(tables, rows, config, progress, sum(t.size for shard in source.shards for t in shard.tensors))
    dropped = {tensor.name for tensor in source.tables.copies}
    places: dict[str, str] = {}
    for shard, name in zip(source.shards, names, strict=True):
        kept = [tensor for tensor in shard.tensors if tensor.name not in dropped]
        write_safetensors(out / name, [writer.new_tensor(tensor) for tensor in kept])
        places |= {tensor.name: name for tensor in kept}
    if len(names) > 1:
        write_index(out, places, writer.bytes, writer.parameters)
    stored = writer.stored_as(source.tables.input)
    dtype = str(DTYPES[stored]).removeprefix("torch.")
    known = source.model.config.get_text_config()
    says = getattr(known, "dtype", None) or getattr(known, "torch_dtype", None)
    changed = new_config(
        source.model.config, tokenizer, writer.rows, None if says and config.dtype == "source" else dtype
    )
    padding = range(writer.tokens, writer.rows)
    generation = new_generation_config(source.folder, source.model.generation_config, tokenizer, padding)
    save_configs(changed, generation, type(source.model).__name__, out)
    return WrittenModel(writer.rows, writer.parameters, writer.bytes, dtype, source.tables.tied, writer.drawn)


class _Writer:
    """Makes the tensors of the new model out of the source's, and counts them."""

    def __init__(
        self,
        tables: dict[str, TableName],
        rows: Callable[[TableName], Sequence[NewRows]],
        config: InitialModelConfig,
        progress: Progress,
        source_bytes: int,
    ) -> None:
        self._tables, self._rows_of, self._config = tables, rows, config
        self._progress, self._source_bytes, self._done = progress, source_bytes, 0
        self.rows = self.tokens = self.drawn = self.parameters = self.bytes = 0
        self._measure()

    def _measure(self) -> None:
        """Sizes, from the mapping alone, before anything is written."""
        parts = self._rows_of("LM head's bias")  # of which no row is given as numbers
        self.tokens = sum(part.mapping.target_size for part in parts)
        multiple = self._config.pad_to_multiple or 1
        self.rows = -(-self.tokens // multiple) * multiple
        self.drawn = sum(len(part.drawn) for part in parts)

    def stored_as(self, tensor: StoredTensor) -> str:
        """Safetensors' name of the number format in which `tensor` is written."""
        return tensor.dtype if tensor.dtype not in DTYPES else _STORED_AS.get(self._config.dtype, tensor.dtype)

    def new_tensor(self, tensor: StoredTensor) -> NewTensor:
        """The tensor to write for `tensor`; its bytes are made when they are asked for."""
        dtype, name = self.stored_as(tensor), self._tables.get(tensor.name)
        shape = tensor.shape if name is None else (self.rows, *tensor.shape[1:])
        size = size_of(dtype, shape) if dtype in DTYPES else tensor.size
        self.parameters += prod(shape)
        self.bytes += size
        chunks = self._copied(tensor, dtype) if name is None else self._replaced(tensor, dtype, name)
        return NewTensor(tensor.name, dtype, shape, size, chunks)

    def _copied(self, tensor: StoredTensor, dtype: str) -> Iterator[bytes | bytearray]:
        chunk: bytes | bytearray
        for chunk in tensor.chunks():
            if tensor.dtype in DTYPES:
                values = torch.frombuffer(chunk, dtype=DTYPES[tensor.dtype])
                if bool(torch.isnan(values).any()):
                    raise InputError(f"source model: {tensor.name!r} holds NaN; its weights are damaged")
                if dtype != tensor.dtype:
                    chunk = values.to(DTYPES[dtype]).view(torch.uint8).numpy().tobytes()
            yield chunk
        self._advance(tensor)

    def _replaced(self, tensor: StoredTensor, dtype: str, name: TableName) -> Iterator[bytes]:
        old = tensor.read().to(DTYPES[dtype])
        new = new_table(name, old, self._rows_of(name), self._config.norms, self.rows)
        del old
        yield from tensor_bytes(new)
        self._advance(tensor)

    def _advance(self, tensor: StoredTensor) -> None:
        self._done += tensor.size
        self._progress(self._done, self._source_bytes, "bytes", tensor.name)
