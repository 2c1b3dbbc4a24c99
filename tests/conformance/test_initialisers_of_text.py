"""mean, random, merge and align against slow implementations on strings: Algorithm 1 as printed, tuples counted.

The tokenizers are small BPEs of both kinds, trained here; the slow versions read their vocabularies and merges and
share no code with the package.
"""

import json
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from configs.schema import MappingConfig
from storage.tables import write_table
from tasks.contract import InputError
from tasks.embeddings.canonical import Vocabulary, vocabulary_of
from tasks.embeddings.registry import Ingredients, load_initialiser
from tasks.embeddings.source_pieces import SourcePieces

TEXTS = {
    "english": [
        "The miller carries fifteen sacks of flour over the bridge; his donkey follows him slowly.",
        "On the market, 3 women sell apples (red and green), honey & bread!",
        "Whoever comes late finds neither apples nor bread, only an empty bag.",
    ],
    "dutch": [
        "De molenaar draagt vijftien zakken meel over de brug; zijn ezel volgt hem langzaam.",
        "Op de markt verkopen 3 vrouwen appels (rood en groen), honing & brood!",
        "Wie laat komt vindt appels noch brood, alleen een lege zak… “op” is op.",
        "  Twee spaties, een\ttab en een\nregel.",
    ],
    "russian": [
        "Мельник несёт пятнадцать мешков муки через мост; осёл медленно идёт за ним.",
        "На рынке 3 женщины продают яблоки (красные и зелёные), мёд и хлеб!",
        "Кто приходит поздно, не находит ни яблок, ни хлеба — только пустой мешок №5.",
    ],
}
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def sentencepiece(texts, size, lower=False):
    """A BPE with ▁ and byte fallback, as Llama 2 has."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL + BYTES, show_progress=False)
    backend.train_from_iterator(texts, trainer)
    spec = json.loads(backend.to_str())
    spec["added_tokens"] = spec["added_tokens"][: len(SPECIAL)]
    spec["model"]["byte_fallback"] = True
    backend = Tokenizer.from_str(json.dumps(spec))
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    if lower:
        backend.normalizer = normalizers.Lowercase()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def byte_level(texts, size):
    """A byte-level BPE without an unknown token, as Llama 3 has."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(texts, trainer)
    backend.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


KINDS = {"sentencepiece": sentencepiece, "byte-level": byte_level}


class Side:
    """A tokenizer, and what its tokens spell, found out in a way of its own."""

    def __init__(self, kind, texts, size, **options):
        self.kind = kind
        self.fast = KINDS[kind](texts, size, **options)
        self.backend = self.fast.backend_tokenizer
        self.tokens = [self.backend.id_to_token(i) for i in range(self.backend.get_vocab_size())]
        self.merges = [tuple(pair) for pair in json.loads(self.backend.to_str())["model"]["merges"]]
        shown = {byte: chr(byte) for byte in [*range(33, 127), *range(161, 173), *range(174, 256)]}
        hidden = [byte for byte in range(256) if byte not in shown]
        self.byte_of = {letter: byte for byte, letter in shown.items()} | {
            chr(256 + n): b for n, b in enumerate(hidden)
        }

    def spelling(self, token):
        """(bytes, whether it is a byte token)."""
        if token in SPECIAL:
            return None
        if self.kind == "byte-level":
            return bytes(self.byte_of[letter] for letter in token), False
        if token in BYTES:
            return bytes([int(token[3:5], 16)]), True
        return token.replace("▁", " ").encode(), False

    def found(self, spelling):
        """The token of a spelling: of two, the one of the same kind (byte token or not)."""
        if spelling is None:
            return None
        text, byte = spelling
        same = {self.spelling(token)[1]: token for token in self.tokens if token not in SPECIAL
                and self.spelling(token)[0] == text}  # fmt: skip
        return same.get(byte, same.get(not byte))

    def bytes_of(self, text):
        """The tokens of each byte of a text."""
        return [self.found((bytes([byte]), True)) for byte in text]


class Case:
    def __init__(self, source, target, folder=None, texts=(), **config):
        self.source, self.target = source, target
        vocabularies = vocabulary_of(target.fast), vocabulary_of(source.fast)
        if folder is not None:
            write_table(pa.table({"text": list(texts)}), folder / "train.parquet")
        self.given = Ingredients(
            *vocabularies, SourcePieces(source.fast, vocabularies[1]), MappingConfig(**config),
            tokenizers=(target.fast, source.fast), corpus=folder,
        )  # fmt: skip
        self.table = np.random.default_rng(0).normal(size=(len(source.tokens), 8)).astype(np.float32)
        self.row = {token: self.table[i].astype(float) for i, token in enumerate(source.tokens)}
        self.shared = {}
        for token in target.tokens:
            match = (
                (token if token in source.tokens else None)
                if token in SPECIAL
                else source.found(target.spelling(token))
            )
            if match is not None:
                self.shared[token] = match

    def check(self, expected):
        """The new table, row by row; rows that are left uncovered are expected as None."""
        mapping = load_initialiser(self.given.config.method).build(self.given)
        table = mapping.apply(torch.from_numpy(self.table)).numpy()
        covered = mapping.covered()
        for i, token in enumerate(self.target.tokens):
            wanted = expected.get(token)
            assert covered[i] == (wanted is not None), (token, mapping.origins()[i])
            if wanted is not None:
                np.testing.assert_allclose(table[i], wanted, atol=1e-6, err_msg=f"{token} {mapping.origins()[i]}")
        return mapping


def algorithm_1(case):
    """Merge as in the paper's Algorithm 1; a part without rules is the mean of its bytes in the source."""
    new = [token for token in case.target.tokens if token not in case.shared]
    pending = [(a, b) for a, b in case.target.merges if a + b in new]
    has_rule = {a + b for a, b in pending}
    maps = defaultdict(list)
    for token in new:  # where the algorithm would never end
        if token not in has_rule and token not in SPECIAL:
            spelled = case.target.spelling(token)[0]
            pieces = case.source.bytes_of(spelled)
            maps[token].append([case.row[piece] for piece in pieces])
    while pending:
        left = []
        for a, b in pending:
            if all(part in case.shared or maps[part] for part in (a, b)):
                maps[a + b].append([case.row[case.shared[p]] if p in case.shared else maps[p] for p in (a, b)])
            else:
                left.append((a, b))
        if len(left) == len(pending):
            break
        pending = left

    def hierarchical_mean(node):
        return np.mean([hierarchical_mean(part) for part in node], axis=0) if isinstance(node, list) else node

    rows = {token: case.row[match] for token, match in case.shared.items()}
    rows |= {token: hierarchical_mean(maps[token]) for token in new if maps[token]}
    return rows


SIDES = [
    (("sentencepiece", "english", 330), ("sentencepiece", "dutch", 420)),
    (("sentencepiece", "english", 330), ("sentencepiece", "russian", 420)),
    (("byte-level", "english", 300), ("byte-level", "dutch", 400)),
    (("byte-level", "english", 300), ("sentencepiece", "dutch", 420)),
    (("byte-level", "english", 300), ("byte-level", "russian", 400)),
    (("sentencepiece", "english", 330), ("byte-level", "russian", 400)),
]


@pytest.fixture(params=SIDES, ids=lambda sides: "-".join(f"{kind}.{language}" for kind, language, _ in sides))
def sides(request):
    return [Side(kind, TEXTS[language], size) for kind, language, size in request.param]


def texts_of(sides):
    language = "russian" if any("е" in token or "Ð" in token for token in sides[1].tokens[300:]) else "dutch"
    return TEXTS[language]


def test_merge(sides):
    case = Case(*sides, method="merge")
    mapping = case.check(algorithm_1(case))
    assert "merge" in mapping.origins()


def cut(side, text):
    """The source tokens of a text that starts a word exactly where it says so; bytes one by one."""
    try:
        whole = text.decode()
    except UnicodeDecodeError:
        return None
    if side.kind == "byte-level":
        return side.backend.encode(whole, add_special_tokens=False).tokens
    if whole == " ":
        return ["▁"]
    if whole.startswith(" "):
        return side.backend.encode(whole[1:], add_special_tokens=False).tokens
    tokens = side.backend.encode("\x01" + whole, add_special_tokens=False).tokens  # no token goes on from \x01
    assert tokens[:2] == ["▁", "<0x01>"]
    return tokens[2:]


def test_mean(sides):
    """FVT: shared tokens copied, others the mean of the source tokenizer's cut of their text."""
    case = Case(*sides, method="mean")
    expected = {token: case.row[match] for token, match in case.shared.items()}
    for token in set(case.target.tokens) - set(expected) - set(SPECIAL):
        spelled = case.target.spelling(token)[0]
        pieces = cut(case.source, spelled)
        if pieces is None:  # part of a character: text and bytes mixed
            text = spelled.decode(errors="ignore").encode()
            if text and not (spelled.startswith(text) or spelled.endswith(text)):
                continue
            rest = spelled.replace(text, b"", 1) if text else spelled
            pieces = [*(cut(case.source, text) if text else []), *case.source.bytes_of(rest)]
        expected[token] = np.mean([case.row[piece] for piece in pieces], axis=0)
    case.check(expected)


@pytest.mark.parametrize("copy_shared", [False, True])
def test_random(sides, copy_shared):
    """Special tokens, and by choice shared ones, copied; all others drawn when the mapping is applied."""
    case = Case(*sides, method="random", copy_shared=copy_shared)
    case.check({token: case.row[match] for token, match in case.shared.items() if copy_shared or token in SPECIAL})


def slow_align(case, texts, offsets=False):
    """Tuples of source tokens in the place of each new token, counted, as in the paper's section 4.3."""
    tuples = defaultdict(Counter)
    for text in texts:
        placed = []
        for side in (case.target, case.source):
            encoding = side.backend.encode(text, add_special_tokens=False)
            at, spans = 0, []
            for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
                if not offsets:
                    start, end = at, at + len(side.spelling(token)[0])
                    at = end
                spans.append((token, start, end))
            if not offsets:  # the first byte of the text at 0: a space put before it lies at -1
                shift = at - len(text.encode())
                spans = [(token, start - shift, end - shift) for token, start, end in spans]
            placed.append(spans)
        for token, start, end in placed[0]:
            if token in case.shared:
                continue
            inside = tuple(name for name, a, b in placed[1] if a >= start and b <= end)
            around = tuple(name for name, a, b in placed[1] if a <= start and b >= end)
            found = inside or around
            if found:
                tuples[token][found] += 1
    rows = algorithm_1(case)
    for token, counted in tuples.items():
        total = sum(counted.values())
        rows[token] = sum(
            frequency / total * np.mean([case.row[name] for name in names], axis=0)
            for names, frequency in counted.items()
        )
    return rows, tuples


def test_align(sides, tmp_path):
    texts = texts_of(sides)
    case = Case(*sides, tmp_path, texts, method="align")
    expected, tuples = slow_align(case, texts)
    mapping = case.check(expected)
    assert len(tuples) > 30
    assert mapping.origins().count("align") == len(tuples)


def test_align_by_offsets_where_tokens_do_not_spell_the_text(tmp_path):
    """A target tokenizer that lower-cases."""
    texts = TEXTS["english"]
    source = Side("sentencepiece", TEXTS["dutch"], 330)
    target = Side("sentencepiece", [text.lower() for text in texts], 420, lower=True)
    case = Case(source, target, tmp_path, texts, method="align")
    expected, tuples = slow_align(case, texts, offsets=True)
    case.check(expected)
    assert len(tuples) > 30


def test_align_reads_texts_spread_over_the_corpus(tmp_path):
    source, target = Side("byte-level", TEXTS["english"], 300), Side("byte-level", TEXTS["dutch"], 400)
    texts = [TEXTS["dutch"][0], "", TEXTS["dutch"][1], ""]
    case = Case(source, target, tmp_path, texts, method="align", align={"max_sentences": 2})
    case.check(slow_align(case, [texts[0], texts[2]])[0])


def test_align_in_batches(tmp_path, monkeypatch):
    """One text at a time, entries summed again and again: the same as all at once."""
    source, target = Side("byte-level", TEXTS["english"], 300), Side("byte-level", TEXTS["dutch"], 400)
    case = Case(source, target, tmp_path, TEXTS["dutch"] * 3, method="align")
    expected, _ = slow_align(case, TEXTS["dutch"] * 3)
    monkeypatch.setattr("tasks.embeddings.init.align._SENTENCES", 1)
    case.check(expected)


def test_align_of_what_does_not_occur(tmp_path):
    """By merge rules, or the mean of the pieces."""
    source, target = Side("byte-level", TEXTS["english"], 300), Side("byte-level", TEXTS["dutch"], 400)
    case = Case(source, target, tmp_path, [""], method="align")
    case.check(algorithm_1(case))
    pieces = Case(source, target, tmp_path, [""], method="align", align={"unseen": "mean"})
    mean = load_initialiser("mean").build(pieces.given)
    found = load_initialiser("align").build(pieces.given)
    assert np.array_equal(found.source_ids, mean.source_ids)
    np.testing.assert_allclose(found.weights, mean.weights, atol=1e-12)


# ------------------------------------------------------------------------------------------- examples of the paper


def plain(tokens, merges=()):
    """A BPE over letters without word starts: (fast tokenizer, its vocabulary)."""
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=list(merges)))
    fast = PreTrainedTokenizerFast(tokenizer_object=backend)
    return fast, vocabulary_of(fast)


def rows_of(mapping, source):
    return [
        {source.tokens[mapping.source_ids[n]]: float(mapping.weights[n]) for n in range(*mapping.indptr[t : t + 2])}
        for t in range(mapping.target_size)
    ]


def test_at_of_the_merges_a_and_t():
    """Section 4.3: ('a', 't') -> 'at', so 'at' is the mean of 'a' and 't'."""
    source, old = plain(["a", "t"])
    target, new = plain(["a", "t", "at"], [("a", "t")])
    given = Ingredients(new, old, SourcePieces(source, old), MappingConfig(method="merge"), tokenizers=(target, source))
    mapping = load_initialiser("merge").build(given)
    assert rows_of(mapping, old)[2] == {"a": 0.5, "t": 0.5}
    assert mapping.origins() == ["shared", "shared", "merge"]


def test_merges_are_hierarchical_and_all_of_a_token_count():
    source, old = plain(["a", "b", "c", "d"])
    merges = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc"), ("abc", "d")]
    target, new = plain(["a", "b", "c", "d", "ab", "bc", "abc", "abcd"], merges)
    given = Ingredients(new, old, SourcePieces(source, old), MappingConfig(method="merge"), tokenizers=(target, source))
    rows = rows_of(load_initialiser("merge").build(given), old)
    assert rows[4] == {"a": 0.5, "b": 0.5}
    assert rows[6] == pytest.approx({"a": 3 / 8, "b": 1 / 4, "c": 3 / 8})  # ((a b) c) and (a (b c))
    assert rows[7] == pytest.approx({"a": 3 / 16, "b": 1 / 8, "c": 3 / 16, "d": 1 / 2})


def test_merge_of_a_tokenizer_without_merges():
    backend = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("ab", -2.0)], unk_id=0))
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    vocabulary = vocabulary_of(fast)
    given = Ingredients(
        vocabulary, vocabulary, SourcePieces(fast, vocabulary), MappingConfig(method="merge"), tokenizers=(fast, fast)
    )
    with pytest.raises(InputError, match="the target tokenizer is no BPE; take 'mean'"):
        load_initialiser("merge").build(given)


class Dictated:
    """A tokenizer that cuts each text as it is told."""

    def __init__(self, tokens, cuts):
        self.tokens, self.cuts = tokens, cuts
        self.backend_tokenizer = self

    def to_str(self):
        return json.dumps({"model": {"type": "Unigram"}})

    def encode_batch(self, texts, add_special_tokens):
        assert not add_special_tokens
        return [Encoded([self.tokens.index(token) for token in self.cuts[text].split("|")]) for text in texts]


class Encoded:
    def __init__(self, ids):
        self.ids = ids


def letters(tokens):
    none = np.zeros(len(tokens), dtype=bool)
    return Vocabulary(tokens, [token.encode() for token in tokens], none, none, {})


class NoPieces:
    def decompose(self, keys):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)


def dictated(new, old, corpus, tokenizers, **config):
    pieces = NoPieces()
    return Ingredients(new, old, pieces, MappingConfig(**config), tokenizers=tokenizers, corpus=corpus)  # type: ignore[arg-type]


def test_two_tokenisations_of_one_word(tmp_path):
    """Section 4.3: 'the' is ('th', 'e') or ('t', 'he'); here three times the one and once the other."""
    texts = ["the a", "a the", "b the", "the b"]
    source = Dictated(["th", "e", "t", "he", " ", "a", "b", " t"], {
        "the a": "th|e| |a", "a the": "a| |th|e", "b the": "b| |t|he", "the b": "th|e| |b",
    })  # fmt: skip
    target = Dictated(["the", " ", "a", "b"], {text: text.replace(" ", "| |") for text in texts})
    write_table(pa.table({"text": texts}), tmp_path / "train.parquet")
    new, old = letters(target.tokens), letters(source.tokens)

    given = dictated(new, old, tmp_path, (target, source), method="align")
    mapping = load_initialiser("align").build(given)
    assert rows_of(mapping, old)[0] == pytest.approx({"th": 3 / 8, "e": 3 / 8, "t": 1 / 8, "he": 1 / 8})
    assert mapping.origins()[0] == "align"


def test_crossing_tokens_do_not_match(tmp_path):
    """'the' over ('xt', 'he'): 'he' lies inside it, 'xt' crosses its border; 'x' lies inside 'xt' alone."""
    source = Dictated(["xt", "he"], {"xthe": "xt|he"})
    target = Dictated(["x", "the"], {"xthe": "x|the"})
    write_table(pa.table({"text": ["xthe"]}), tmp_path / "train.parquet")
    new, old = letters(target.tokens), letters(source.tokens)
    given = dictated(new, old, tmp_path, (target, source), method="align", align={"unseen": "mean"})
    mapping = load_initialiser("align").build(given)
    assert rows_of(mapping, old) == [{"xt": 1.0}, {"he": 1.0}]


def test_an_unknown_token_in_a_tuple_leaves_its_share_to_the_others(tmp_path):
    """'ab' is once ('a', <unk>), once ('a', 'b'): each occurrence weighs 1."""
    source = Dictated(["<unk>", "a", "b", " "], {"ab": "a|<unk>", " ab": " |a|b"})
    target = Dictated(["ab", " "], {"ab": "ab", " ab": " |ab"})
    write_table(pa.table({"text": ["ab", " ab"]}), tmp_path / "train.parquet")
    new, old = letters(target.tokens), letters(source.tokens)
    old = Vocabulary(old.tokens, [b"b", *old.surfaces[1:]], old.byte, np.arange(4) == 0, {"unk": 0})
    given = dictated(new, old, tmp_path, (target, source), method="align", align={"unseen": "mean"})
    assert rows_of(load_initialiser("align").build(given), old)[0] == pytest.approx({"a": 3 / 4, "b": 1 / 4})
