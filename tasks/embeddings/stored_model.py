"""A model folder opened without reading its weights: its files, its tensors, and which of them are the vocabulary's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.embeddings.new_table import TableName
from tasks.embeddings.safetensors_reader import Shard, StoredTensor, read_shards
from tasks.embeddings.vocabulary_tables import VocabularyTables, find_tables
from tasks.pretrained import empty_model, load_config


@dataclass(frozen=True)
class StoredModel:
    """A causal language model's folder, of which nothing but the headers has been read.

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


def open_model(folder: Path, role: str) -> StoredModel:
    """The causal language model in `folder`: configuration, headers of its safetensors files, and its tables' names.

    Args:
        folder: model folder.
        role: what it is, for errors: "source model".

    Raises:
        InputError: no model that transformers knows, no safetensors weights, damaged or missing files, no
            vocabulary tables.
    """
    config = load_config(folder, role)
    shards = read_shards(folder, role)
    model = empty_model(config, role)
    return StoredModel(folder, model, shards, find_tables(model, shards, role))
