import os
import subprocess
import sys
from itertools import pairwise

import pytest

from tasks.sample.choice import Choice, zipf_choice
from tasks.sample.generator import TEMPLATES, generate_pairs
from tasks.sample.words import split_words

SCRIPT = """
import hashlib
from tasks.sample.generator import generate_pairs
print(hashlib.sha256(repr(list(generate_pairs(500, seed=3))).encode()).hexdigest())
"""


def test_same_seed_same_pairs_other_seed_others():
    first, again = list(generate_pairs(300, 1)), list(generate_pairs(300, 1))
    assert first == again
    assert first != list(generate_pairs(300, 2))


def test_a_smaller_number_is_the_beginning_of_a_larger_one():
    assert list(generate_pairs(400, 5))[:150] == list(generate_pairs(150, 5))


def test_pairs_do_not_depend_on_the_hash_seed():
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True
        )
        digests.add(run.stdout)
    assert len(digests) == 1


def test_pairs_are_varied_and_of_ordinary_length():
    pairs = list(generate_pairs(20_000, 0))
    assert len({(pair.source, pair.target) for pair in pairs}) >= 0.9 * len(pairs)
    for side in ("source", "target"):
        mean = sum(len(split_words(getattr(pair, side))) for pair in pairs) / len(pairs)
        assert 8 <= mean <= 12


def test_word_frequencies_fall_like_zipf(pairs):
    counts: dict[str, int] = {}
    for pair in pairs:
        for word in split_words(pair.source.lower()):
            counts[word] = counts.get(word, 0) + 1
    ordered = sorted(counts.values(), reverse=True)
    assert len(ordered) > 1200
    assert ordered[0] > 5 * ordered[20] > 25 * ordered[400]


@pytest.mark.parametrize("template", [template for template, _ in TEMPLATES], ids=lambda template: template.__name__)
def test_every_kind_of_sentence_can_be_made(template):
    from tasks.sample.draft import Draft
    from tasks.sample.lexicon import load_lexicon

    draft = Draft(load_lexicon(), 9)
    for _ in range(200):
        phrase, mark = template(draft)
        pair = draft.finish(phrase, mark)
        assert pair.source.endswith(mark)
        assert all(first != second for first, second in pairwise(split_words(pair.target)) if first == ","), pair


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Maria's cat is twenty-one.", ["Maria's", "cat", "is", "twenty-one", "."]),
        ("Ĉu ŝi legas, aŭ ne?", ["Ĉu", "ŝi", "legas", ",", "aŭ", "ne", "?"]),
        ("at 3 o'clock!", ["at", "3", "o'clock", "!"]),
        ("«a» — b", ["«", "a", "»", "—", "b"]),
        ("", []),
    ],
)
def test_split_words(text, words):
    assert split_words(text) == words


def test_choice_follows_its_weights_at_the_borders():
    choice = Choice(("a", "b"), (1, 3))
    assert [choice.draw(lambda value=value: value) for value in (0.0, 0.2499, 0.25, 0.9999999999999999)] == [
        "a",
        "a",
        "b",
        "b",
    ]
    assert zipf_choice(["x", "y"]).draw(lambda: 0.0) == "x"


def test_choice_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Choice((), ())
