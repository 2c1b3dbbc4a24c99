"""The bundled sentence pairs, from their artifact."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from configs.schema import SampleSource
from tasks.contract import InputError
from tasks.corpus.open_file import Location
from tasks.corpus.read_parquet import read_parquet
from tasks.corpus.records import Records

_FILE = "pairs.parquet"


def read_sample(source: SampleSource, folder: Path, names: Sequence[str]) -> Iterator[Records]:
    """One side, or both, of the sentence pairs as the text columns `names`.

    Raises:
        InputError: `side` does not fit the number of columns wanted.
    """
    if (source.side == "both") != (len(names) == 2):
        wanted = "parallel text needs side 'both'" if len(names) == 2 else "monolingual text needs 'source' or 'target'"
        raise InputError(f"source {source.name!r}: side is {source.side!r}, but {wanted}")
    columns = ["source", "target"] if source.side == "both" else [source.side]
    yield from read_parquet(Location(source.name, folder / _FILE, _FILE), columns, names)
