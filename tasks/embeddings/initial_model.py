"""A causal language model with its vocabulary replaced, written without ever being loaded whole."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from configs.schema import InitialModelConfig
from tasks.contract import InputError, Progress, no_progress
from tasks.embeddings.model_config import NewVocabulary, new_config, new_generation_config, save_configs
from tasks.embeddings.new_table import NewRows, TableName, new_table
from tasks.embeddings.safetensors_reader import DTYPES, StoredTensor
from tasks.embeddings.safetensors_writer import (
    NewTensor,
    shard_names,
    size_of,
    tensor_bytes,
    write_index,
    write_safetensors,
)
from tasks.embeddings.stored_model import StoredModel, open_model
from tasks.pretrained import load_generation_config

ROLE = "source model"  # in errors
_STORED_AS = {"float32": "F32", "bfloat16": "BF16"}


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


def open_source(folder: Path) -> StoredModel:
    """The source model in `folder`; nothing but headers is read.

    Raises:
        InputError: as `open_model`, or its weights are quantised.
    """
    source = open_model(folder, ROLE)
    if quantisation := getattr(source.model.config, "quantization_config", None):
        method = quantisation.get("quant_method") if isinstance(quantisation, dict) else quantisation
        raise InputError(
            f"{ROLE}: the weights in {folder.name!r} are quantised (quantization_config in config.json: {method}); "
            "take the version of the model in float32, bfloat16 or float16"
        )
    return source


def write_initial_model(
    source: StoredModel,
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
        rows: the new rows of a table, for each vocabulary that the model shall have.
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
    dtype = str(DTYPES[writer.stored_as(source.tables.input)]).removeprefix("torch.")
    _write_configs(source, writer, tokenizer, dtype, out)
    return WrittenModel(writer.rows, writer.parameters, writer.bytes, dtype, source.tables.tied, writer.drawn)


def _write_configs(source: StoredModel, writer: "_Writer", tokenizer: Any, dtype: str, out: Path) -> None:
    vocabulary = NewVocabulary(tokenizer, writer.copies_of, writer.tokens, writer.rows)
    known = source.model.config.get_text_config()
    named = getattr(known, "dtype", None) or getattr(known, "torch_dtype", None)
    kept = named is not None and writer.keeps_formats
    config = new_config(source.model.config, vocabulary, None if kept else dtype)
    old = load_generation_config(source.folder, ROLE) or source.model.generation_config
    save_configs(config, new_generation_config(old, vocabulary), type(source.model).__name__, out)


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
        self.parameters = self.bytes = 0
        self._parts = rows("LM head's bias")  # the mappings alone: no row of it is given as numbers
        self.tokens = sum(part.mapping.target_size for part in self._parts)
        multiple = config.pad_to_multiple or 1
        self.rows = -(-self.tokens // multiple) * multiple
        self.drawn = sum(len(part.drawn) for part in self._parts)
        self.keeps_formats = config.dtype == "source"

    def copies_of(self, source_id: int) -> list[int]:
        """The new tokens whose rows are copies of the source's row `source_id`, ascending."""
        found, start = [], 0
        for part in self._parts:
            found += (start + part.copied[part.copied_from == source_id]).tolist()
            start += part.mapping.target_size
        return found

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
                    raise InputError(f"{ROLE}: {tensor.name!r} holds NaN; its weights are damaged")
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
