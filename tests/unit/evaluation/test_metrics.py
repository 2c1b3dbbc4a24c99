import math

import pytest

from tasks.evaluation.metrics import METRICS, Totals, compute
from tasks.evaluation.words import count_words

TOTALS = Totals(
    nll=100 * math.log(2), sentences=3, bytes=50, characters=40, words=10, tokens=26, unscored_tokens=1,
    unknown_tokens=2, native_tokens=20,
)  # fmt: skip


def test_values_worked_by_hand():
    values = compute(TOTALS)
    assert values["bits_per_byte"] == pytest.approx(2.0)
    assert values["bits_per_character"] == pytest.approx(2.5)
    assert values["perplexity_per_native_token"] == pytest.approx(2**5)
    assert values["perplexity_per_token"] == pytest.approx(2**4)
    assert values["tokens_per_word"] == 2.6
    assert values["tokens_per_byte"] == 0.52
    assert values["unknown_tokens"] == 2


def test_all_metrics_have_a_unit_and_are_sorted():
    assert list(compute(TOTALS)) == sorted(METRICS)
    assert all(metric.unit for metric in METRICS.values())


def test_undefined_metrics_are_left_out():
    values = compute(Totals(0.0, 1, 3, 3, 0, 0, 0, 0, 0))
    assert "tokens_per_word" not in values
    assert "perplexity_per_token" not in values
    assert values["bits_per_byte"] == 0.0


def test_perplexity_beyond_float_is_left_out():
    values = compute(Totals(1e6, 1, 3, 3, 1, 1, 0, 0, 1))
    assert "perplexity_per_token" not in values
    assert "bits_per_byte" in values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("...", 0),
        ("two words", 2),
        ("don't", 2),
        ("हिन्दी भाषा", 2),
        ("e\u0301te\u0301 2024", 2),
        ("نص عربي", 2),
    ],
)
def test_words_are_runs_of_letters_marks_and_digits(text, words):
    assert count_words(text) == words
