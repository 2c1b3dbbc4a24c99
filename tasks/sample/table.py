"""The table of sentence pairs, written as it is generated."""

from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from configs.schema import SampleConfig
from storage.tables import TableWriter
from tasks.contract import Progress
from tasks.sample.generator import generate_pairs
from tasks.sample.words import split_words

DISTINCT_PAIRS = 1_000_000
"""The share of distinct pairs is measured on the first pairs, at most so many: it keeps a hash of each in memory."""

SCHEMA = pa.schema([("source", pa.string()), ("target", pa.string()), ("alignment", pa.string())])


def pharaoh(alignment: tuple[tuple[int, int], ...]) -> str:
    """Links as text: '0-0 1-2'."""
    return " ".join([f"{source}-{target}" for source, target in alignment])


def write_pairs(config: SampleConfig, path: Path, progress: Progress, batch_rows: int) -> dict[str, Any]:
    """Write the pairs of `config` to `path`, `batch_rows` at a time.

    Returns:
        Figures for people: pairs, share of distinct pairs, mean words a side.
    """
    pairs = generate_pairs(config.sentences, config.seed)
    seen: set[int] = set()
    done = source_words = target_words = 0
    with TableWriter(path, SCHEMA) as writer:
        while batch := list(islice(pairs, batch_rows)):
            columns = [
                [pair.source for pair in batch],
                [pair.target for pair in batch],
                [pharaoh(pair.alignment) for pair in batch],
            ]
            writer.write(pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=SCHEMA))
            looked_at = batch[: DISTINCT_PAIRS - done] if done < DISTINCT_PAIRS else []
            seen.update(xxhash.xxh3_64_intdigest(f"{pair.source}\t{pair.target}".encode()) for pair in looked_at)
            source_words += len(split_words(" ".join(columns[0])))
            target_words += len(split_words(" ".join(columns[1])))
            done += len(batch)
            progress(done, config.sentences, "pairs")
    return {
        "pairs": done,
        "distinct_share": round(len(seen) / min(done, DISTINCT_PAIRS), 4),
        "source_words_per_sentence": round(source_words / done, 2),
        "target_words_per_sentence": round(target_words / done, 2),
    }
