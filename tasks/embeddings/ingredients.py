"""What an initialiser reads, loaded from the mapping stage's inputs."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from configs.schema import MappingConfig
from tasks.contract import InputError, StageContext
from tasks.embeddings.canonical import Vocabulary, vocabulary_of
from tasks.embeddings.registry import Helper, Ingredients, Tables, TokenPairs
from tasks.embeddings.source_pieces import SourcePieces
from tasks.pretrained import load_tokenizer

if TYPE_CHECKING:
    import torch

_ROWS = 4096
# For errors: what stands behind an input's name.
_MEANING = {
    "counts": "counts of aligned tokens; add a bitext",
    "alignment": "the alignment of parallel text; add a bitext",
    "bitext": "parallel text; add a bitext",
    "corpus": "the corpus of the target language",
    "source_model": "the source model",
    "helper": "a helper model of the target language; set `helper`",
}


def load_ingredients(context: StageContext) -> Ingredients:
    """The vocabularies, and what the configured initialiser needs beside them; tables are loaded when asked for.

    Raises:
        InputError: an input is missing, a tokenizer cannot be read or has no tokens, or the counts belong to others.
    """
    config: MappingConfig = context.config
    tokenizers = tuple(
        load_tokenizer(context.inputs[name], role)
        for name, role in (("tokenizer", "target tokenizer"), ("source_tokenizer", "source tokenizer"))
    )
    target, source = (
        _vocabulary(tokenizer, role) for tokenizer, role in zip(tokenizers, ("target", "source"), strict=True)
    )
    if not len(target) or not len(source):
        raise InputError(f"mapping: a tokenizer has no tokens (target {len(target)}, source {len(source)})")
    given, counts_of = _inputs(context.inputs), _by_language(context.inputs)
    for need in config.needs():
        if need not in given:
            raise InputError(f"mapping: the initialiser {config.method!r} needs {_MEANING[need]}")
    for code in config.merged_languages():
        if code not in counts_of:
            raise InputError(f"mapping: the initialiser {config.method!r} needs counts of source language {code!r}")
    sizes = (len(target), len(source))
    model, helper = given.get("source_model"), given.get("helper")
    return Ingredients(
        target=target,
        source=source,
        pieces=SourcePieces(tokenizers[1], source),
        config=config,
        pairs=_token_pairs(given["counts"], sizes) if "counts" in given else None,
        pairs_of={code: _token_pairs(folder, sizes) for code, folder in counts_of.items()},
        tokenizers=(tokenizers[0], tokenizers[1]),
        corpus=given.get("corpus"),
        alignment=given.get("alignment"),
        bitext=given.get("bitext"),
        source_tables=None if model is None else cache(lambda: load_tables(model, "source model", len(source))),
        helper=None if helper is None else cache(lambda: load_helper(helper)),
        files=context.files,
        work=context.work,
    )


def load_tables(folder: Path, role: str, tokens: int) -> Tables:
    """The embedding tables of the model in `folder`, in float32; rows beyond the vocabulary are kept.

    Args:
        folder: Hugging Face model folder with safetensors weights.
        role: what it is, for errors: "source model".
        tokens: tokens of its tokenizer; rows beyond them (padding) may hold anything.

    Raises:
        InputError: it cannot be read, or a row of a token is not finite.
    """
    from tasks.embeddings.stored_model import open_model

    tables = open_model(folder, role).tables.embeddings()
    found = {name: _finite(table.read(), f"{role}: {name} row", tokens) for name, table in tables.items()}
    return Tables(found["input"], found.get("head"))


def load_helper(folder: Path) -> Helper:
    """The helper model in `folder`: a model folder with its tokenizer.

    Raises:
        InputError: it cannot be read, or a row of a token is not finite.
    """
    vocabulary = _vocabulary(load_tokenizer(folder, "helper tokenizer"), "helper")
    return Helper(vocabulary, load_tables(folder, "helper model", len(vocabulary)))


def _vocabulary(tokenizer: Any, role: str) -> Vocabulary:
    try:
        return vocabulary_of(tokenizer)
    except ValueError as error:
        raise InputError(f"mapping: the {role} tokenizer cannot be used: {error}") from error


def _finite(table: "torch.Tensor", what: str, tokens: int) -> NDArray[np.float32]:
    """`table` in float32, checked block by block."""
    result = table.float().numpy()
    for start in range(0, min(tokens, len(result)), _ROWS):
        bad = np.flatnonzero(~np.isfinite(result[start : min(start + _ROWS, tokens)]).all(axis=1))
        if len(bad):
            raise InputError(
                f"mapping: {what} {start + bad[0]} is not finite; the weights are damaged: download them again"
            )
    return result


def _inputs(inputs: Mapping[str, Path]) -> dict[str, Path]:
    return {name: folder for name, folder in inputs.items() if name in _MEANING}


def _by_language(inputs: Mapping[str, Path]) -> dict[str, Path]:
    """The counts of each source language that is merged with others, by its code (inputs `counts.<code>`)."""
    lead = "counts."
    return {name.removeprefix(lead): folder for name, folder in inputs.items() if name.startswith(lead)}


def _token_pairs(folder: Path, sizes: tuple[int, int]) -> TokenPairs:
    """The counted token pairs, checked against the vocabularies."""
    path = folder / "token_pairs.parquet"
    table = pq.read_table(path, columns=["source_id", "target_id", "count"])
    pairs = TokenPairs(
        target_ids=table["target_id"].to_numpy().astype(np.int64),
        source_ids=table["source_id"].to_numpy().astype(np.int64),
        counts=table["count"].to_numpy().astype(np.float64),
    )
    for side, ids, size in zip(("target", "source"), (pairs.target_ids, pairs.source_ids), sizes, strict=True):
        if len(ids) and not 0 <= ids.min() <= ids.max() < size:
            raise InputError(
                f"mapping: the counts hold {side} token {ids.max()}, the {side} tokenizer has {size} tokens; "
                "they were counted with another tokenizer: count again"
            )
    if not np.all(np.isfinite(pairs.counts)) or np.any(pairs.counts < 0):
        raise InputError(f"mapping: counts in {path.name} must be finite and not negative")
    return pairs
