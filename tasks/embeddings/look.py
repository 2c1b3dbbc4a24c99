"""The new embedding tables beside the old ones: similarity, nearest neighbours, and a picture in two dimensions."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from configs.schema import EmbeddingsConfig
from tasks.embeddings.canonical import Vocabulary, vocabulary_of
from tasks.embeddings.matching import NONE, identical_tokens
from tasks.embeddings.neighbours import nearest_neighbours
from tasks.embeddings.projection import principal_plane
from tasks.embeddings.safetensors_reader import StoredTensor
from tasks.embeddings.similarity import Similarity, choose_anchors, has_direction, relative_similarity
from tasks.embeddings.stored_model import open_model
from tasks.embeddings.token_text import ordinary, readable
from tasks.pretrained import load_tokenizer

DIGITS = 5  # kept of cosines and coordinates: beyond them, the order of a sum decides


@dataclass(frozen=True)
class Side:
    """A model's vocabulary and its stored embedding tables; one table of each model is in memory at a time."""

    vocabulary: Vocabulary
    tables: dict[str, StoredTensor]

    def read(self, table: str) -> torch.Tensor:
        """The table 'input' or 'head'; there may be more rows than tokens (padding)."""
        return self.tables[table].read()


@dataclass(frozen=True)
class Sides:
    """What is compared.

    Attributes:
        target: the initial model.
        references: what it is compared with: 'source', and 'helper' where there is one.
        origin: why each target row is as it is.
        frequency: int64 [target size].
    """

    target: Side
    references: dict[str, Side]
    origin: list[str]
    frequency: NDArray[np.int64]


def read_sides(inputs: Mapping[str, Path]) -> Sides:
    """The initial model and its references (see the stage for the inputs).

    Raises:
        InputError: a folder has no model or no tokenizer that can be read.
    """
    references = {"source": _side(inputs["source_model"], inputs["source_tokenizer"], "source")}
    if "helper" in inputs:
        references["helper"] = _side(inputs["helper"], inputs["helper"], "helper")
    target = _side(inputs["model"], inputs["tokenizer"], "initial")
    tokens = pq.read_table(inputs["mapping"] / "tokens.parquet", columns=["origin", "frequency"])
    return Sides(target, references, tokens["origin"].to_pylist(), tokens["frequency"].to_numpy().astype(np.int64))


def _side(model: Path, tokenizer: Path, name: str) -> Side:
    vocabulary = vocabulary_of(load_tokenizer(tokenizer, f"{name} tokenizer"))
    return Side(vocabulary, open_model(model, f"{name} model").tables.embeddings())


def similarity_rows(sides: Sides, config: EmbeddingsConfig) -> pa.Table:
    """The similarity to each reference over the tokens that both vocabularies have, by table."""
    rows = []
    for name, reference in sides.references.items():
        for table in _common(sides.target, reference):
            pair = (sides.target.read(table), reference.read(table))
            found = side_similarity(sides.target.vocabulary, reference.vocabulary, pair, config)
            del pair
            rows.append({"table": table, "reference": name, **similarity_row(found)})
    schema = pa.schema(
        [
            ("table", pa.string()),
            ("reference", pa.string()),
            ("similarity", pa.float64()),
            ("deviation", pa.float64()),
            ("tokens", pa.int64()),
            ("anchors", pa.int64()),
        ]
    )
    return pa.Table.from_pylist(rows, schema)


def similarity_row(found: Similarity | None) -> dict[str, Any]:
    """A similarity as columns; None (no common token) as missing values."""
    if found is None or found.tokens == 0:
        return {"similarity": None, "deviation": None, "tokens": 0, "anchors": 0 if found is None else found.anchors}
    return {
        "similarity": round(found.mean, DIGITS),
        "deviation": round(found.deviation, DIGITS),
        "tokens": found.tokens,
        "anchors": found.anchors,
    }


def side_similarity(
    first: Vocabulary, second: Vocabulary, tables: tuple[torch.Tensor, torch.Tensor], config: EmbeddingsConfig
) -> Similarity | None:
    """The relative-representation similarity over the tokens of the same text; None where no token could be an anchor.

    Tokens that are special tokens, byte tokens or parts of a character in either vocabulary are left out.
    """
    matches = identical_tokens(first, second)
    common = ordinary(first) & (matches != NONE)
    common[len(tables[0]) :] = False
    ids = np.flatnonzero(common & (matches < len(tables[1])) & ordinary(second)[matches])
    pairs = np.stack([ids, matches[ids]], axis=1)
    usable = has_direction(tables[0])[pairs[:, 0]] & has_direction(tables[1])[pairs[:, 1]]
    anchors = choose_anchors(first.starts_word[ids], usable, config.anchors, config.seed)
    return relative_similarity(*tables, pairs, anchors) if len(anchors) else None


def neighbour_rows(sides: Sides, config: EmbeddingsConfig) -> pa.Table:
    """The nearest source tokens of the most frequent target tokens that the source vocabulary does not have."""
    target, source = sides.target, sides.references["source"]
    new = ordinary(target.vocabulary) & (identical_tokens(target.vocabulary, source.vocabulary) == NONE)
    chosen = np.flatnonzero(new)
    chosen = chosen[np.argsort(-sides.frequency[chosen], kind="stable")][: config.tokens]
    return pa.concat_tables([_neighbours_in(name, sides, chosen, config) for name in _common(target, source)])


def _neighbours_in(name: str, sides: Sides, chosen: NDArray[np.int64], config: EmbeddingsConfig) -> pa.Table:
    """The nearest source tokens of the target tokens `chosen` in the table `name`."""
    target, source = sides.target, sides.references["source"]
    old = source.read(name)
    real = np.flatnonzero([bool(token) for token in source.vocabulary.tokens[: len(old)]])
    new = target.read(name)[torch.from_numpy(chosen)]
    ids, cosines = nearest_neighbours(new, old[torch.from_numpy(real)], config.neighbours)
    rows, count = np.repeat(chosen, ids.shape[1]), len(chosen)
    found = real[ids].reshape(-1)
    return pa.table(
        {
            "table": pa.array([name] * len(rows), pa.string()),
            "target_id": pa.array(rows.astype(np.int32)),
            "token": pa.array([readable(target.vocabulary, i) for i in rows.tolist()], pa.string()),
            "origin": pa.array([sides.origin[i] for i in rows.tolist()], pa.string()),
            "frequency": pa.array(sides.frequency[rows]),
            "rank": pa.array(np.tile(np.arange(1, ids.shape[1] + 1, dtype=np.int32), count)),
            "source_id": pa.array(found.astype(np.int32)),
            "source_token": pa.array([readable(source.vocabulary, i) for i in found.tolist()], pa.string()),
            "cosine": pa.array(cosines.reshape(-1).astype(np.float64).round(DIGITS)),
        }
    )


def projection_rows(sides: Sides, config: EmbeddingsConfig) -> tuple[pa.Table, list[float]]:
    """Input embeddings of a sample of both vocabularies on their common principal plane, and its share of the variance.

    The sample, drawn with the seed, is of the target tokens that occur in the text and of all source tokens; the
    rows are brought to length 1 first, so that the picture shows directions, as cosines do.
    """
    rng = np.random.default_rng(config.seed)
    source = sides.references["source"]
    occurs = sides.frequency > 0 if sides.frequency.any() else np.ones_like(sides.frequency, dtype=bool)
    parts, names = [], []
    for side, there in ((source, None), (sides.target, occurs)):
        usable = ordinary(side.vocabulary) if there is None else ordinary(side.vocabulary) & there
        table = side.read("input")
        usable &= _padded(has_direction(table), len(usable))
        ids = np.sort(rng.permutation(np.flatnonzero(usable))[: config.points])
        rows = table[torch.from_numpy(ids)].to(torch.float32)
        del table
        parts.append(torch.nn.functional.normalize(rows, dim=1).numpy())
        names.append(ids)
    coordinates, shares = principal_plane(np.concatenate(parts))
    old, new = names
    table = pa.table(
        {
            "side": pa.array(["source"] * len(old) + ["target"] * len(new), pa.string()),
            "token_id": pa.array(np.concatenate([old, new]).astype(np.int32)),
            "token": pa.array(
                [readable(source.vocabulary, i) for i in old.tolist()]
                + [readable(sides.target.vocabulary, i) for i in new.tolist()],
                pa.string(),
            ),
            "origin": pa.array([None] * len(old) + [sides.origin[i] for i in new.tolist()], pa.string()),
            "frequency": pa.array([None] * len(old) + sides.frequency[new].tolist(), pa.int64()),
            "x": pa.array(coordinates[:, 0].round(DIGITS) + 0.0),
            "y": pa.array(coordinates[:, 1].round(DIGITS) + 0.0),
        }
    )
    return table, shares.tolist()


def _padded(flags: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """`flags` cut or filled with False to `size`."""
    result = np.zeros(size, dtype=bool)
    result[: min(size, len(flags))] = flags[:size]
    return result


def _common(first: Side, second: Side) -> list[str]:
    """The names of the tables that both models have."""
    return [name for name in first.tables if name in second.tables]
