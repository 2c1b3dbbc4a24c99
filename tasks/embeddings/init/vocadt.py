"""VocADT (Han et al. 2025, section 3.2): the adapter's initial matrix A; A times the old table is the new one."""

import numpy as np
from numpy.typing import NDArray

from tasks.embeddings.copied_rows import OwnRows, assembled, copied_rows, pieces_of
from tasks.embeddings.dense_rows import DenseRows
from tasks.embeddings.registry import Ingredients, Initialiser, Tables
from tasks.embeddings.token_mapping import TokenMapping

_BLOCK = 32


def build(given: Ingredients) -> TokenMapping | DenseRows:
    """Shared tokens one-hot, others 1/m on each of their m source pieces, the rest a random weighting of all tokens.

    A piece that occurs twice gets 2/m, so that the row is the mean of the pieces' embeddings, as the paper says. A
    token that the source tokenizer can only cut with its unknown token, or into nothing, has a random row: u / sum(u),
    u uniform(0, 1) over the source vocabulary. Such a row of A has |V_s| entries, which no sparse matrix should hold;
    the rows of the *product* are given instead (`DenseRows`), and `random_weights` gives the row of A itself again.

    Raises:
        ValueError: there are random rows, and the source model's tables were not given.
    """
    copied = copied_rows(given.target, given.source)
    rows = copied.rest[~given.target.special[copied.rest]]
    rows = rows[~given.pieces.has_unknown([given.target.keys[i] for i in rows.tolist()])]
    decomposed = OwnRows("decomposed", rows, pieces_of(given, rows))
    mapping = assembled(copied, [decomposed], len(given.source), "random-combination")
    random = np.flatnonzero(~mapping.covered())
    if not len(random):
        return mapping
    if given.source_tables is None:
        raise ValueError(f"vocadt: {len(random)} tokens have random rows, which need the source model's tables")
    tables = given.source_tables()
    return random_rows(mapping, random, tables, given.config.seed)


def random_rows(mapping: TokenMapping, rows: NDArray[np.int64], tables: Tables, seed: int) -> DenseRows:
    """The mapping with the random rows `rows`, as products with the tables; 32 rows of A are held at a time.

    Args:
        mapping: without entries in `rows`.
        rows: int64 [R], ascending.
        tables: the source model's tables; their first `mapping.source_size` rows are used.
        seed: seed of the rows.
    """
    size = min(mapping.source_size, len(tables.input))
    result = [np.empty((len(rows), table.shape[1]), dtype=np.float32) for table in _tables(tables)]
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK].tolist()
        weights = np.stack([random_weights(row, size, seed) for row in block]).astype(np.float32)
        for table, out in zip(_tables(tables), result, strict=True):
            out[start : start + _BLOCK] = weights @ table[:size]
    return DenseRows(mapping, rows, result[0], None if tables.head is None else result[1])


def random_weights(target_id: int, source_size: int, seed: int) -> NDArray[np.float64]:
    """The random row of A of one token, drawn with (seed, target_id): u / sum(u), u uniform(0, 1).

    Returns:
        float64 [source_size].
    """
    drawn = np.random.default_rng((seed, target_id)).random(source_size)
    return np.asarray(drawn / drawn.sum(), dtype=np.float64)


def _tables(tables: Tables) -> list[NDArray[np.float32]]:
    return [tables.input] if tables.head is None else [tables.input, tables.head]


METHOD = Initialiser(name="vocadt", build=build, paper="Han et al. 2025, section 3.2", needs=("source_model",))
