"""Sentence pairs for the alignment benchmark: gold sets with the text to train on, text of a wanted size, the sample.

The choice of text is fixed: files in the order of their names, lines in their order. Words are lower-cased and stand
between single spaces.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle, islice
from pathlib import Path

import numpy as np
import regex
import zstandard

from tasks.alignment.bitext import Bitext
from tasks.alignment.links import Int32, Int64, Links, offsets_from_lengths
from tasks.alignment.pharaoh import parse_pharaoh
from tasks.sample.generator import generate_pairs
from tasks.sample.words import split_words

GOLD_TEXT_PAIRS = 50_000  # most pairs of parallel text that a gold set is trained with
LONGEST = 200  # words of a side in texts for speed and memory, which every aligner takes
GOLDEN_GOLD_SET = "wpt03-hansards-test"
LARGE_LANGUAGE, LARGE_CORPUS = "en-fr", "hansards"
SAMPLE = "en-eo/sample"
SAMPLE_PAIRS = 20_000
ELIDING = ("fr", "it")  # languages that write a short word and an apostrophe before a word without a space

Pair = tuple[str, str]

_WORD = regex.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")
_ELIDED_WORD = regex.compile(r"\w+['’](?=\w)|\w+(?:[-.,]\w+)*|[^\w\s]")


@dataclass(frozen=True)
class GoldSet:
    """The lines `start` to `end` (exclusive) of a corpus have links made by people."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class GoldCorpus:
    """Sentence pairs to train on, whose first K have gold links.

    Attributes:
        name: its name, for a table.
        source: N lines, lower-cased words between single spaces.
        target: the other side.
        sure: gold links of the first K lines.
        possible: the same lines.
        sets: the gold sets, which cover the first K lines.
    """

    name: str
    source: list[str]
    target: list[str]
    sure: Links
    possible: Links
    sets: tuple[GoldSet, ...]

    def __len__(self) -> int:
        return len(self.source)


def read_rows(path: Path) -> Iterator[list[str]]:
    """Rows of a compressed table without its heading."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
        next(lines)
        for line in lines:
            yield line.rstrip("\n").split("\t")


def clean(text: str) -> str:
    """Text that is in words already: lower-cased, one space between words."""
    return " ".join(text.lower().split())


def split(text: str, language: str) -> str:
    """Running text: lower-cased; runs of letters, marks and digits, and every other sign, are words.

    As in the gold sets: what stands between letters or digits (hyphen, apostrophe, point, comma) splits no word,
    but a word ends after the apostrophe of an elision.
    """
    return " ".join((_ELIDED_WORD if language in ELIDING else _WORD).findall(text.lower()))


def gold_corpora(data: Path) -> Iterator[GoldCorpus]:
    """Every gold set below `data`, by language pair, each with the parallel text there is (at most `GOLD_TEXT_PAIRS`).

    Of English to French there are two: the gold set and text of upstream fast_align's golden output, exactly those
    lines, and the other gold sets with the same text.
    """
    for folder in sorted((data / "alignments_gold").iterdir()):
        paths = sorted(folder.glob("*.tsv.zst"))
        golden = [path for path in paths if _name(path) == GOLDEN_GOLD_SET]
        others = [path for path in paths if path not in golden]
        if golden:
            yield gold_corpus(data, folder.name, golden, folder.name)
        yield gold_corpus(data, folder.name, others, f"{folder.name} other" if golden else folder.name)


def golden_corpora(data: Path) -> Iterator[GoldCorpus]:
    """The two corpora of upstream fast_align's golden output; en-sw has no gold links."""
    path = data / "alignments_gold" / "en-fr" / f"{GOLDEN_GOLD_SET}.tsv.zst"
    yield gold_corpus(data, "en-fr", [path], "en-fr")
    rows = list(read_rows(data / "parallel" / "en-sw" / "lafand-train.NC.tsv.zst"))
    nothing = parse_pharaoh(b"")
    yield GoldCorpus("en-sw", [clean(row[0]) for row in rows], [clean(row[1]) for row in rows], nothing, nothing, ())


def gold_corpus(data: Path, language: str, paths: list[Path], name: str) -> GoldCorpus:
    """Gold sets of one language pair (`paths`), then parallel text."""
    source: list[str] = []
    target: list[str] = []
    links: tuple[list[str], list[str]] = ([], [])
    sets = []
    for path in paths:
        start = len(source)
        for row in read_rows(path):
            source.append(clean(row[0]))
            target.append(clean(row[1]))
            links[0].append(row[2])
            links[1].append(row[3])
        sets.append(GoldSet(f"{language}/{_name(path)}", start, len(source)))
    for first, second in islice(parallel_text(data, language), GOLD_TEXT_PAIRS):
        source.append(first)
        target.append(second)
    sure, possible = (parse_pharaoh("".join(f"{line}\n" for line in lines).encode()) for lines in links)
    return GoldCorpus(name, source, target, sure, possible, tuple(sets))


def parallel_text(data: Path, language: str) -> Iterator[Pair]:
    """All parallel text of one language pair, in words; nothing where there is none."""
    source, target = language.split("-")
    for path in sorted((data / "parallel" / language).glob("*.tsv.zst")):
        in_words = _name(path) == LARGE_CORPUS
        for row in read_rows(path):
            yield ((clean(row[0]), clean(row[1])) if in_words else (split(row[0], source), split(row[1], target)))


def pool(data: Path) -> list[Pair]:
    """All real text that every aligner takes: Hansards first, then the other corpora by language pair and name.

    Pairs with a side of more than `LONGEST` words or with fast_align's separator are left out.
    """
    folders = sorted(path.name for path in (data / "parallel").iterdir() if path.name != LARGE_LANGUAGE)
    pairs = chain.from_iterable(parallel_text(data, language) for language in [LARGE_LANGUAGE, *folders])
    return [pair for pair in pairs if all("|||" not in side and 0 <= side.count(" ") < LONGEST for side in pair)]


def hansards_first(pairs: list[Pair], size: int) -> Iterator[Pair]:
    """The first `size` pairs, gone through again as often as it takes."""
    return islice(cycle(pairs), size)


def evenly(pairs: list[Pair], size: int) -> Iterator[Pair]:
    """`size` pairs spread evenly over all, gone through again as often as it takes: the same mixture at every size."""
    rounds, rest = divmod(size, len(pairs))
    for _ in range(rounds):
        yield from pairs
    for k in range(rest):
        yield pairs[k * len(pairs) // rest]


@dataclass(frozen=True)
class TextFiles:
    """A text of a wanted size, a file a side.

    Attributes:
        source: file, one sentence a line, one space between words.
        target: its translation.
        pairs: lines of each.
        words: of the source and the target side.
        cells: sum over the pairs of source words x target words.
        distinct: lines that are not there a second time because the text is repeated.
    """

    source: Path
    target: Path
    pairs: int
    words: tuple[int, int]
    cells: int
    distinct: int


def write_text(pairs: Iterator[Pair], folder: Path, distinct: int) -> TextFiles:
    """Write `pairs` to the files `source` and `target` in `folder`."""
    folder.mkdir(parents=True)
    count = first_words = second_words = cells = 0
    with (
        (folder / "source").open("w", encoding="utf-8") as first,
        (folder / "target").open("w", encoding="utf-8") as second,
    ):
        for source, target in pairs:
            first.write(source + "\n")
            second.write(target + "\n")
            lengths = source.count(" ") + 1, target.count(" ") + 1
            first_words, second_words = first_words + lengths[0], second_words + lengths[1]
            cells += lengths[0] * lengths[1]
            count += 1
    return TextFiles(
        folder / "source", folder / "target", count, (first_words, second_words), cells, min(count, distinct)
    )


def sample_corpus(pairs: int = SAMPLE_PAIRS, seed: int = 0) -> GoldCorpus:
    """The bundled sample, all of whose links are known."""
    source, target, links = [], [], []
    for pair in generate_pairs(pairs, seed):
        source.append(" ".join(split_words(pair.source)).lower())
        target.append(" ".join(split_words(pair.target)).lower())
        links.append(" ".join(f"{i}-{j}" for i, j in pair.alignment) + "\n")
    true = parse_pharaoh("".join(links).encode())
    return GoldCorpus(SAMPLE, source, target, true, true, (GoldSet(SAMPLE, 0, pairs),))


def sample_pairs(pairs: int) -> list[Pair]:
    """The bundled sample's sentences, lower-cased, in words."""
    corpus = sample_corpus(pairs)
    return list(zip(corpus.source, corpus.target, strict=True))


def bitext_of(source: list[str], target: list[str]) -> Bitext:
    """The pairs as word numbers, in order of first occurrence."""
    first, first_offsets, first_words = _numbers(source)
    second, second_offsets, second_words = _numbers(target)
    return Bitext(first, first_offsets, second, second_offsets, len(first_words), len(second_words))


def vocabulary(lines: list[str]) -> list[str]:
    """The words by number."""
    return list(dict.fromkeys(chain.from_iterable(line.split() for line in lines)))


def _numbers(lines: list[str]) -> tuple[Int32, Int64, dict[str, int]]:
    known: dict[str, int] = {}
    words = [line.split() for line in lines]
    flat = np.array([known.setdefault(word, len(known)) for line in words for word in line], dtype=np.int32)
    return flat, offsets_from_lengths(np.array([len(line) for line in words], dtype=np.int64)), known


def _name(path: Path) -> str:
    return path.name.removesuffix(".tsv.zst")
