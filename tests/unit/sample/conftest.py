"""Generated pairs shared by the tests, and the lexicon read anew, without the package's loader."""

import csv
from pathlib import Path

import pytest

from tasks.sample import lexicon
from tasks.sample.draft import SentencePair
from tasks.sample.generator import generate_pairs


@pytest.fixture(scope="session")
def pairs() -> list[SentencePair]:
    return list(generate_pairs(6000, seed=20))


@pytest.fixture(scope="session")
def tables() -> dict[str, list[dict[str, str]]]:
    folder = Path(lexicon.__file__).parent / "lexicon"
    result = {}
    for path in sorted(folder.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            result[path.stem] = list(csv.DictReader(file, delimiter="\t"))
    return result
