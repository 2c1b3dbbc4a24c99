"""`compat: published` against a slow implementation of the published rules on token strings and dictionaries."""

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from configs.schema import MappingConfig
from tasks.contract import InputError
from tasks.embeddings.canonical import vocabulary_of
from tasks.embeddings.published_mapping import published_mapping
from tasks.embeddings.registry import Ingredients, load_initialiser
from tasks.embeddings.source_pieces import SourcePieces
from tasks.embeddings.word_counts import WordCounts, read_translation_table

KNOWN = {}


def cutter(tokenizer):
    """`tokenize`, which forgets nothing: it is asked for 20,000 numbers again and again."""
    known = KNOWN.setdefault(id(tokenizer), (tokenizer, {}))[1]

    def cut(text):
        if text not in known:
            known[text] = tokenizer.tokenize(text)
        return known[text]

    return cut


def slow_published(rows, new, old, min_count=10):
    """{target token: {source token or None: weight}}; rows: (source word, target word, ln p, count)."""
    new_vocab, old_vocab = new.get_vocab(), old.get_vocab()
    table = defaultdict(Counter)
    best = defaultdict(lambda: -1e9)
    for s, _, p, _ in rows:
        best[s] = max(best[s], p)
    for s, t, p, c in rows:
        if "<eps>" in (s, t) or p < 4 * best[s] or int(c) < min_count:
            continue
        c = int(c)
        if t in new_vocab and s in old_vocab:
            table[t][s] += c
            continue
        half = max(1, c // 2)
        ss, ts = s.split("—"), t.split("—")
        for b in ts:
            for a in ss:
                table[b][a] += max(1, half // len(ss))
        length = np.lcm(len(ss), len(ts))
        stretched = [a for a in ss for _ in range(length // len(ss))], [b for b in ts for _ in range(length // len(ts))]
        for a, b in zip(*stretched, strict=True):
            table[b][a] += max(1, half // (length // len(ts)))
    cut_new, cut_old = cutter(new), cutter(old)
    for number in [str(i) for i in range(9999)] + ["0" + str(i) for i in range(99)]:
        if number in new_vocab:
            table[number][number if number in old_vocab else cut_old(number)[0]] += 1
        for text in (number, " " + number):
            if len(cut_new(text)) == 1:
                table[cut_new(text)[0]][cut_old(text)[0]] += 1

    def marks(tokenizer):
        cut = tokenizer.tokenize
        return cut(" a")[0].rstrip("a"), cut("a" * 22)[1].rstrip("a")

    (new_1, new_2), (old_1, old_2) = marks(new), marks(old)
    for token in new_vocab:
        text = token.replace(new_1, old_1) if new_1 or old_1 else token
        text = text.replace(new_2, old_2) if new_2 or old_2 else text
        if text in old_vocab:
            table[token][text] += 1
    partners = {"pad": "pad", "unk": "unk", "bos": "bos cls", "eos": "eos sep", "cls": "cls bos", "sep": "sep eos",
                "mask": "mask pad"}  # fmt: skip
    for role, names in partners.items():
        if getattr(new, role + "_token") is not None:
            found = [getattr(old, name + "_token") for name in names.split()]
            found = [token for token in found if token is not None and token in old_vocab]
            table[getattr(new, role + "_token")][found[0] if found else old.unk_token] += 10**9
    order = sorted(new_vocab, key=new_vocab.get)
    for token in order:
        if token in table:
            continue
        longer = [other for other in order if other.startswith(token) and other in table]
        inside = sorted((other for other in table if other in token), key=len, reverse=True)
        inside = [other for n, other in enumerate(inside) if not any(other in longest for longest in inside[:n])]
        row = Counter()
        for other in longer + inside:
            total = sum(table[other].values())
            for s, count in table[other].items():
                row[s] += max(1, ((2000 if s is not None and s.startswith("▁") else 1000) * count) // total)
        if row:
            table[token] = row
    result = {}
    for token in order:
        row = table.get(token) or {new.unk_token: 1}
        result[token] = {s: count / sum(row.values()) for s, count in row.items()}
    return result


def slow_ids(row, old):
    """Weights by source id; what the source has not goes to its unknown token, else padding, begin, 0."""
    known = next(i for i in (old.unk_token_id, old.pad_token_id, old.bos_token_id, 0) if i is not None)
    result = defaultdict(float)
    for token, weight in row.items():
        result[old.get_vocab().get(token, known)] += weight
    return dict(result)


def rows_of(mapping):
    return [
        dict(zip(mapping.source_ids[a:b].tolist(), mapping.weights[a:b].tolist(), strict=True))
        for a, b in zip(mapping.indptr[:-1], mapping.indptr[1:], strict=True)
    ]


def share_that_agrees(mapping, expected, new, old, tolerance=1e-3):
    good = 0
    for i, row in enumerate(rows_of(mapping)):
        wanted = slow_ids(expected[new.convert_ids_to_tokens(i)], old)
        good += set(row) == set(wanted) and all(abs(row[s] - wanted[s]) <= tolerance for s in row)
    return good / mapping.target_size


def table_of(new, old, seed, pairs=400):
    """A made-up aligner's table over the words of both tokenizers, some of several tokens, some weak."""
    rng = np.random.default_rng(seed)
    sides = []
    for tokenizer in (old, new):
        tokens = [t for t in tokenizer.get_vocab() if t not in tokenizer.all_special_tokens and "—" not in t]
        tokens = sorted(tokens)
        sides.append(["—".join(rng.choice(tokens, size=rng.integers(1, 5))) for _ in range(60)] + ["<eps>"])
    found = {}
    for _ in range(pairs):
        found[rng.choice(sides[0]), rng.choice(sides[1])] = float(
            rng.choice([1, 9.99, 10, 31.7, 1234.5]) * rng.random() * 2
        )
    totals = Counter()
    for (s, _), count in found.items():
        totals[s] += count
    return [(s, t, float(np.log(c / totals[s])), c) for (s, t), c in found.items()]


def counts_of(rows):
    columns = list(zip(*rows, strict=True))
    return WordCounts(columns[0], columns[1], np.array(columns[2]), np.array(columns[3]))


@pytest.mark.parametrize("target", [("metaspace", "dutch"), ("byte-level", "dutch"), ("byte-level", "russian")])
@pytest.mark.parametrize("source", [("metaspace", "english"), ("byte-level", "english")])
@pytest.mark.parametrize("seed", [0])
def test_equals_the_slow_implementation(small_tokenizer, source, target, seed):
    old, new = small_tokenizer(*source), small_tokenizer(*target)
    rows = table_of(new, old, seed)
    expected = slow_published(rows, new, old)
    mapping = published_mapping(counts_of(rows), (new, old), (vocabulary_of(new), vocabulary_of(old)), 10)
    assert share_that_agrees(mapping, expected, new, old, 1e-9) == 1.0
    assert {"aligned", "identical", "special"} <= set(mapping.origins())


def test_vijftien():
    """The paper's counts: 13721 and 12293 whole, 544 halved between two rules, each halved over two tokens."""
    rows = [
        ("▁fifteen", "▁vijftien", -0.7, 13721.0),
        ("▁15", "▁vijftien", -0.8, 12293.0),
        ("▁Fif—teen", "▁vijftien", -0.1, 544.0),
    ]
    names = ["<unk>", "▁", "a", "▁a"], ["▁fifteen", "▁15", "▁Fif", "teen"], ["▁vijftien"]
    old, new = (word_tokenizer(names[0] + more) for more in names[1:])
    mapping = published_mapping(counts_of(rows), (new, old), (vocabulary_of(new), vocabulary_of(old)), 10)
    row = rows_of(mapping)[new.get_vocab()["▁vijftien"]]
    rounded = {old.convert_ids_to_tokens(s): round(w, 2) for s, w in row.items()}
    assert rounded == {"▁fifteen": 0.52, "▁15": 0.46, "▁Fif": 0.01, "teen": 0.01}


def word_tokenizer(tokens):
    """A "▁" BPE that has these tokens, and merges to "▁a" only."""
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [("▁", "a")], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def given_published(new, old, **settings):
    vocabulary = vocabulary_of(old)
    config = MappingConfig(method="trans-tokenization", trans_tokenization={"compat": "published", **settings})
    return Ingredients(vocabulary_of(new), vocabulary, SourcePieces(old, vocabulary), config, tokenizers=(new, old))


def test_from_a_table_and_from_an_alignment(small_tokenizer, tmp_path):
    old, new = small_tokenizer("metaspace", "english"), small_tokenizer("metaspace", "dutch")
    rows = [row for row in table_of(new, old, seed=4) if "<eps>" not in row[:2]]
    totals = Counter()
    for s, _, _, count in rows:
        totals[s] += float(f"{count:.6g}")
    rows = [(s, t, float(np.log(float(f"{c:.6g}") / totals[s])), float(f"{c:.6g}")) for s, t, _, c in rows]
    path = tmp_path / "table.tsv.zst"
    text = "".join(f"{s}\t{t}\t{p!r}\t{c!r}\n" for s, t, p, c in rows)
    path.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
    expected = slow_published(rows, new, old)
    given = given_published(new, old, translation_table="table.tsv.zst")
    assert given.config.needs() == ()
    one = load_initialiser("trans-tokenization").build(replace(given, files={"translation_table": path}))
    assert share_that_agrees(one, expected, new, old, 1e-9) == 1.0
    for side, tokenizer, n in (("source", old, 0), ("target", new, 1)):
        words = sorted({row[n] for row in rows})
        ids = [[tokenizer.get_vocab()[t] for t in word.split("—")] for word in words]
        columns = {"unit_id": pa.array(range(len(words)), pa.int32()), "token_ids": pa.array(ids, pa.list_(pa.int32()))}
        pq.write_table(pa.table(columns), tmp_path / f"{side}_units.parquet")
        number = {word: i for i, word in enumerate(words)}
        rows = [(*row[:n], number[row[n]], *row[n + 1 :]) for row in rows]
    columns = {
        "source_unit": pa.array([row[0] for row in rows], pa.int32()),
        "target_unit": pa.array([row[1] for row in rows], pa.int32()),
        "count": pa.array([row[3] for row in rows], pa.float64()),
    }
    pq.write_table(pa.table(columns), tmp_path / "word_pairs.parquet")
    given = given_published(new, old)
    assert given.config.needs() == ("alignment",)
    two = load_initialiser("trans-tokenization").build(replace(given, alignment=tmp_path))
    assert share_that_agrees(two, expected, new, old, 1e-9) == 1.0
    with pytest.raises(ValueError, match="needs an alignment, or the aligner's table"):
        load_initialiser("trans-tokenization").build(given)


@pytest.mark.parametrize("line", ["a\tb\t-1", "a\tb\tx\t3", "a\tb\t-1\t2\t3"])
def test_bad_tables(tmp_path, line):
    path = tmp_path / "table.tsv"
    path.write_text(f"a\tb\t-1\t12\n{line}\n")
    with pytest.raises(InputError, match=r"table.tsv, line 2: .*expected `source<TAB>target<TAB>ln p<TAB>count`"):
        read_translation_table(path)
    path.write_text("a\tb\t-1\tinf\n")
    with pytest.raises(InputError, match="must be finite"):
        read_translation_table(path)


# ------------------------------------------------------------------------------------------------- golden counts


@pytest.fixture
def golden(shared_data) -> Path:
    path = shared_data.parent / "golden" / "fast_align" / "en-sw.model1-expected-counts.tsv.zst"
    if not path.is_file():
        pytest.skip(f"no golden counts at {path}")
    return path


def trained(words, size, special):
    """A "▁" BPE trained on a list of words."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    names = ["<unk>", *special]
    specials = [AddedToken(token, special=True) for token in names]
    backend.train_from_iterator(
        words, trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


@pytest.mark.shared_data
def test_golden_model_1_counts(golden):
    """The published aligner's own counts on English-Swahili, its words cut by two tokenizers trained on them."""
    with golden.open("rb") as file:
        lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().split("\n")
    rows = [line.split("\t") for line in lines if line]
    old, new = (trained([row[n] for row in rows], size, ["<s>", "</s>"]) for n, size in ((0, 600), (1, 900)))
    cut = [
        {word: word if word == "<eps>" else "—".join(tokenizer.tokenize(word)) for word in {row[n] for row in rows}}
        for n, tokenizer in ((0, old), (1, new))
    ]
    table = [(cut[0][s], cut[1][t], float(p), float(c)) for s, t, p, c in rows]
    expected = slow_published(table, new, old)
    mapping = published_mapping(counts_of(table), (new, old), (vocabulary_of(new), vocabulary_of(old)), 10)
    assert share_that_agrees(mapping, expected, new, old) >= 0.99
    assert Counter(mapping.origins())["aligned"] > 300
