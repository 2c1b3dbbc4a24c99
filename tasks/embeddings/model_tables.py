"""The embedding tables of a model folder, read without the rest of the model."""

from dataclasses import dataclass
from pathlib import Path

import torch

from tasks.embeddings.safetensors_reader import read_shards
from tasks.embeddings.vocabulary_tables import find_tables, meta_model, read_config


@dataclass(frozen=True)
class ModelTables:
    """Embedding tables in the format they are saved in; there may be more rows than tokens (padding).

    Attributes:
        input: [rows, h].
        head: [rows, h]; None where it is tied to the input embeddings.
    """

    input: torch.Tensor
    head: torch.Tensor | None

    def named(self) -> dict[str, torch.Tensor]:
        """The tables there are: 'input', and 'head' where it is one of its own."""
        return {"input": self.input} | ({} if self.head is None else {"head": self.head})


def read_model_tables(folder: Path) -> ModelTables:
    """The input embeddings and the LM head of the causal language model in `folder`.

    Raises:
        InputError: the folder holds no such model, or its weights lack a table.
    """
    shards = read_shards(folder)
    found = find_tables(meta_model(read_config(folder)), shards)
    return ModelTables(found.input.read(), None if found.head is None else found.head.read())
