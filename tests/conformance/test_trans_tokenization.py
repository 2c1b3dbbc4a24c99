"""Trans-tokenization, steps 4 to 6, against a slow implementation on dictionaries of strings.

The slow version shares no code with the package: it reads the byte alphabet off the tokenizers library, cuts text with
SentencePiece itself, and looks for contained tokens by trying all of them.
"""

import itertools
import random
import re
import unicodedata
from collections import defaultdict

import numpy as np
import pytest
import sentencepiece as spm
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from configs.schema import MappingConfig, TokenizerConfig
from tasks.embeddings.canonical import Vocabulary, vocabulary_of
from tasks.embeddings.registry import Ingredients, TokenPairs, load_initialiser
from tasks.embeddings.source_pieces import SourcePieces
from tasks.tokenizer.convert import fast_tokenizer, write_sentencepiece
from tasks.tokenizer.sentencepiece_training import train_sentencepiece

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
    ],
    "russian": [
        "Мельник несёт пятнадцать мешков муки через мост; осёл медленно идёт за ним.",
        "На рынке 3 женщины продают яблоки (красные и зелёные), мёд и хлеб!",
        "Кто приходит поздно, не находит ни яблок, ни хлеба — только пустой мешок №5.",
    ],
}


# ------------------------------------------------------------------------------------------- tokenizers of both kinds


def is_broken(character):
    """Whether this is (a run of) bytes that are no whole character."""
    return "\udc80" <= character[0] <= "\udcff"


def runs(data):
    """The runs of whole characters and of other bytes in some bytes."""
    return ["".join(run) for _, run in itertools.groupby(data.decode(errors="surrogateescape"), key=is_broken)]


class SentencePieceSide:
    def __init__(self, folder, language, size):
        folder.mkdir(exist_ok=True)
        model = train_sentencepiece(TEXTS[language], TokenizerConfig(vocab_size=size))
        write_sentencepiece(model, fast_tokenizer(model), folder)
        self.fast = AutoTokenizer.from_pretrained(str(folder))
        self.processor = spm.SentencePieceProcessor(model_proto=model)
        self.tokens = [self.processor.id_to_piece(i) for i in range(len(self.processor))]
        self.roles = {"<unk>": "unk", "<s>": "bos", "</s>": "eos"}

    def text(self, token):
        if re.fullmatch("<0x..>", token):
            return bytes([int(token[3:5], 16)])
        return token.replace("▁", " ").encode()

    def is_byte(self, token):
        return bool(re.fullmatch("<0x..>", token))

    def cut(self, data):
        found = []
        for text in runs(data):
            if is_broken(text):
                found += [f"<0x{byte:02X}>" for byte in text.encode(errors="surrogateescape")]
            else:  # no token of the vocabulary goes on from \x01
                pieces = self.processor.encode("\x01" + text, out_type=str)
                assert pieces[:2] == ["▁", "<0x01>"]
                found += pieces[2:]
        return found


class ByteLevelSide:
    def __init__(self, folder, language, size):
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
        backend.train_from_iterator(TEXTS[language], trainer)
        backend.add_special_tokens([AddedToken("<|begin|>", special=True), AddedToken("<|end|>", special=True)])
        PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<|begin|>", eos_token="<|end|>").save_pretrained(
            str(folder)
        )
        self.fast = AutoTokenizer.from_pretrained(str(folder))
        self.backend = backend
        self.tokens = [backend.id_to_token(i) for i in range(backend.get_vocab_size())]
        self.roles = {"<|begin|>": "bos", "<|end|>": "eos"}
        self.byte_of = {}
        for point in [*range(0x800), *range(0x800, 0xD800, 64), *range(0x10000, 0x110000, 0x1000)]:
            [(shown, _)] = backend.pre_tokenizer.pre_tokenize_str("a" + chr(point))[-1:]
            for symbol, byte in zip(reversed(shown), reversed(chr(point).encode()), strict=False):
                self.byte_of[symbol] = byte
        for byte in set(range(256)) - set(self.byte_of.values()):  # in no text: 0xC0, 0xC1, 0xF5 to 0xFF
            self.byte_of[chr(byte)] = byte

    def text(self, token):
        return bytes(self.byte_of[symbol] for symbol in token)

    def is_byte(self, token):
        return False

    def cut(self, data):
        symbol = {byte: shown for shown, byte in self.byte_of.items()}
        found = []
        for text in runs(data):
            if is_broken(text):
                found += [symbol[byte] for byte in text.encode(errors="surrogateescape")]
            else:
                found += self.backend.encode(text, add_special_tokens=False).tokens
        return found


# --------------------------------------------------------------------------------------------- the slow implementation


def is_number_or_punctuation(data):
    try:
        text = data.decode().removeprefix(" ")
    except UnicodeDecodeError:
        return False
    kinds = {unicodedata.category(character)[0] for character in text}
    return bool(text) and (kinds == {"N"} or kinds <= {"P", "S"})


def pick(candidates, side, byte, token):
    """One of the source tokens with the same text: of the same kind first, then of the same string, then by string."""
    return min(candidates, key=lambda s: (side.is_byte(s) != byte, s != token, s))


def slow_mapping(target, source, counts, smoothing):
    """{target token: ({source token: weight}, origin)}; counts: {(target token, source token): count}."""
    by_role = {role: token for token, role in source.roles.items()}
    source_texts = defaultdict(list)
    for s in source.tokens:
        if s not in source.roles:
            source_texts[source.text(s)].append(s)
    table, origin = {}, {}
    for t in target.tokens:
        if t in target.roles:
            continue
        text = target.text(t)
        row = defaultdict(float)
        for (t2, s), count in counts.items():
            if t2 == t and s not in source.roles:
                row[s] += count
        origin[t] = "aligned" if row else None
        if smoothing and text in source_texts:
            row[pick(source_texts[text], source, target.is_byte(t), t)] += smoothing
            origin[t] = origin[t] or "identical"
        elif smoothing and is_number_or_punctuation(text):
            other = text[1:] if text.startswith(b" ") else b" " + text
            if other in source_texts:
                row[pick(source_texts[other], source, False, None)] += smoothing
            else:
                pieces = [s for s in source.cut(text) if s in source.tokens and source.text(s).strip()]
                for s in pieces:
                    row[s] += smoothing / len(pieces)
            origin[t] = origin[t] or ("smoothed" if row else None)
        if row:
            total = sum(row.values())
            table[t] = {s: weight / total for s, weight in row.items()}
    result = {}
    for t in target.tokens:
        if t in target.roles:
            role = target.roles[t]
            sources = {by_role[role]: 1.0} if role in by_role else {}
            origin[t] = "special" if sources else "fallback-unknown" if "unk" in by_role else "random"
            result[t] = sources or ({by_role["unk"]: 1.0} if "unk" in by_role else {})
        elif t in table:
            result[t] = table[t]
        else:
            result[t], origin[t] = slow_fallback(t, table, target, source, by_role)
    return {t: (row, origin[t]) for t, row in result.items()}


def slow_fallback(t, table, target, source, by_role):
    text = target.text(t).decode(errors="surrogateescape")
    places = []
    for part in table:
        part_text = target.text(part).decode(errors="surrogateescape")
        if target.is_byte(part) or not part_text.strip():
            continue
        places += [(-len(part_text), m.start(), part) for m in re.finditer(f"(?={re.escape(part_text)})", text)]
    taken = []
    for length, start, part in sorted(places):
        if all(start - length <= s or start >= s + n for s, n, _ in taken):
            taken.append((start, -length, part))
    rows = [table[part] for _, _, part in taken]
    if rows:
        return mean(rows), "fallback-parts"
    rows = [{s: 1.0} for s in source.cut(target.text(t)) if s in source.tokens and s not in source.roles]
    if rows:
        return mean(rows), "fallback-decomposition"
    return ({by_role["unk"]: 1.0}, "fallback-unknown") if "unk" in by_role else ({}, "random")


def mean(rows):
    total = defaultdict(float)
    for row in rows:
        for s, weight in row.items():
            total[s] += weight / len(rows)
    return dict(total)


# ----------------------------------------------------------------------------------------------------------- the tests


def build(target_vocabulary, source, pairs, smoothing=1.0):
    vocabulary = vocabulary_of(source.fast)
    given = Ingredients(
        target=target_vocabulary,
        source=vocabulary,
        pieces=SourcePieces(source.fast, vocabulary),
        config=MappingConfig(smoothing=smoothing),
        pairs=pairs,
    )
    return load_initialiser("trans-tokenization").build(given)


def pairs_of(entries):
    rows = [(t, s, c) for (t, s), c in entries.items()]
    return TokenPairs(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64),
    )


def rows_of(mapping, source_tokens):
    found = []
    for t in range(mapping.target_size):
        entries = slice(mapping.indptr[t], mapping.indptr[t + 1])
        found.append(
            {source_tokens[s]: w for s, w in zip(mapping.source_ids[entries], mapping.weights[entries], strict=True)}
        )
    return found


SIDES = {"sentencepiece": SentencePieceSide, "byte-level": ByteLevelSide}
CASES = [
    (("sentencepiece", "english", 360), ("sentencepiece", "dutch", 420)),
    (("sentencepiece", "english", 360), ("byte-level", "russian", 420)),
    (("byte-level", "english", 420), ("sentencepiece", "russian", 420)),
    (("byte-level", "english", 420), ("byte-level", "dutch", 420)),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0][0]}-{case[1][0]}-{case[1][1]}")
def sides(request, tmp_path_factory):
    return [SIDES[kind](tmp_path_factory.mktemp(language), language, size) for kind, language, size in request.param]


def random_counts(target, source, share, seed):
    chooser = random.Random(seed)
    counts = {}
    for t in range(len(target.tokens)):
        if chooser.random() < share:
            for _ in range(chooser.randint(1, 5)):
                counts[t, chooser.randrange(len(source.tokens))] = chooser.uniform(0.5, 500)
    return counts


@pytest.mark.parametrize(("share", "smoothing"), [(0.4, 1.0), (0.1, 1.0), (0.3, 0.0), (0.0, 2.5)])
def test_equals_the_slow_implementation(sides, share, smoothing):
    source, target = sides
    counts = random_counts(target, source, share, seed=3)
    by_string = {(target.tokens[t], source.tokens[s]): count for (t, s), count in counts.items()}
    expected = slow_mapping(target, source, by_string, smoothing)
    mapping = build(vocabulary_of(target.fast), source, pairs_of(counts), smoothing)
    origins = mapping.origins()
    for t, row in enumerate(rows_of(mapping, source.tokens)):
        wanted, origin = expected[target.tokens[t]]
        assert origins[t] == origin, target.tokens[t]
        assert row == pytest.approx(wanted, abs=1e-6), (target.tokens[t], origin)


def test_every_origin_occurs_in_some_case(tmp_path):
    source = SentencePieceSide(tmp_path / "source", "english", 360)
    target = ByteLevelSide(tmp_path / "target", "russian", 420)
    mapping = build(vocabulary_of(target.fast), source, pairs_of(random_counts(target, source, 0.1, seed=3)))
    wanted = {"special", "aligned", "identical", "fallback-parts", "fallback-decomposition"}
    assert set(mapping.origins()) >= wanted


def test_the_order_of_the_vocabulary_does_not_matter(sides):
    source, target = sides
    counts = random_counts(target, source, 0.2, seed=5)
    vocabulary = vocabulary_of(target.fast)
    plain = rows_of(build(vocabulary, source, pairs_of(counts)), source.tokens)
    order = np.random.default_rng(1).permutation(len(vocabulary))
    place = np.argsort(order)
    shuffled = Vocabulary(
        tokens=[vocabulary.tokens[i] for i in order],
        surfaces=[vocabulary.surfaces[i] for i in order],
        byte=vocabulary.byte[order],
        special=vocabulary.special[order],
        roles={role: int(place[i]) for role, i in vocabulary.roles.items()},
    )
    moved = {(int(place[t]), s): count for (t, s), count in counts.items()}
    other = rows_of(build(shuffled, source, pairs_of(moved)), source.tokens)
    for new, old in enumerate(order.tolist()):
        assert other[new] == pytest.approx(plain[old], abs=1e-12)


def word_vocabulary(words):
    """A vocabulary of `▁` tokens, made by hand, with <unk>."""
    tokens = ["<unk>", *words]
    surfaces = [b"", *(word.replace("▁", " ").encode() for word in words)]
    special = np.array([True] + [False] * len(words))
    return Vocabulary(tokens, surfaces, np.zeros(len(tokens), dtype=bool), special, {"unk": 0})


class NoPieces:
    def decompose(self, keys):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)


def test_vijftien():
    """Appendix E of the paper: 13721 _fifteen, 12293 _15, 544 _Fif##teen (halved over its two tokens)."""
    source = word_vocabulary(["▁fifteen", "▁15", "▁Fif", "teen", "▁only"])
    target = word_vocabulary(["▁vijftien", "▁pas"])
    pairs = pairs_of({(1, 1): 13721.0, (1, 2): 12293.0, (1, 3): 272.0, (1, 4): 272.0})
    given = Ingredients(target, source, NoPieces(), MappingConfig(), pairs)  # type: ignore[arg-type]
    mapping = load_initialiser("trans-tokenization").build(given)
    row = rows_of(mapping, source.tokens)[1]
    rounded = {token: round(weight, 2) for token, weight in row.items()}
    assert rounded == {"▁fifteen": 0.52, "▁15": 0.46, "▁Fif": 0.01, "teen": 0.01}
    assert mapping.origins() == ["special", "aligned", "fallback-unknown"]


def test_weights_are_counts_divided_once():
    """Bit for bit c / sum of c: a row divided by its sum twice is off by a rounding."""
    source, target = word_vocabulary([f"▁s{i}" for i in range(40)]), word_vocabulary(["▁x", "▁y"])
    counts = {(t, s): float(np.random.default_rng(41 * t + s).uniform(0.1, 1e4)) for t in (1, 2) for s in range(1, 41)}
    given = Ingredients(target, source, NoPieces(), MappingConfig(), pairs_of(counts))  # type: ignore[arg-type]
    mapping = load_initialiser("trans-tokenization").build(given)
    for t in (1, 2):
        total = 0.0
        for s in range(1, 41):
            total += counts[t, s]
        row = rows_of(mapping, source.tokens)[t]
        assert row == {f"▁s{s - 1}": counts[t, s] / total for s in range(1, 41)}


def test_longest_parts_first_without_overlap():
    """'▁abcde' holds '▁ab' and 'bcd' (equal in length: the leftmost wins), then 'cd' and 'e'."""
    source = word_vocabulary(["▁x", "▁y", "▁z", "▁w"])
    target = word_vocabulary(["▁abcde", "▁ab", "bcd", "cd", "e"])
    pairs = pairs_of({(2, 1): 10.0, (3, 2): 10.0, (4, 3): 10.0, (5, 4): 10.0})
    given = Ingredients(target, source, NoPieces(), MappingConfig(), pairs)  # type: ignore[arg-type]
    mapping = load_initialiser("trans-tokenization").build(given)
    assert rows_of(mapping, source.tokens)[1] == pytest.approx({"▁x": 1 / 3, "▁z": 1 / 3, "▁w": 1 / 3})
    assert mapping.origins()[1] == "fallback-parts"


def test_source_without_unknown_token_leaves_rows_uncovered():
    source = word_vocabulary(["▁x"])
    source = Vocabulary(source.tokens, source.surfaces, source.byte, source.special, {})
    target = word_vocabulary(["▁unknown"])
    given = Ingredients(target, source, NoPieces(), MappingConfig(), pairs_of({}))  # type: ignore[arg-type]
    mapping = load_initialiser("trans-tokenization").build(given)
    # the target's unknown token still finds the special token of the same string
    assert mapping.covered().tolist() == [True, False]
    assert mapping.origins() == ["special", "random"]


def test_counts_of_other_tokenizers_are_refused():
    source, target = word_vocabulary(["▁x"]), word_vocabulary(["▁y"])
    given = Ingredients(target, source, NoPieces(), MappingConfig(), pairs_of({(1, 2): 1.0}))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="source ids of aligned pairs must be 0 to 1, got 2 to 2"):
        load_initialiser("trans-tokenization").build(given)
