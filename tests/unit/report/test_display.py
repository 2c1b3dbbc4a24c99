import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.report.display import count, duration, number, percent, size, visible


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(1.23456), "1.235"),
        (number(1.23456, 2), "1.23"),
        (number(123.456), "123.5"),
        (number(1234567.8), "1,234,568"),
        (number(None), "–"),
        (count(12345), "12,345"),
        (percent(0.1234), "12.3 %"),
        (size(1000), "1,000 B"),
        (size(1536), "1.5 KiB"),
        (size(200 * 1024**2), "200 MiB"),
        (duration(0.416), "0.42 s"),
        (duration(12.34), "12.3 s"),
        (duration(245), "4:05 min"),
        (duration(7400), "2:03:20 h"),
        (duration(None), "–"),
    ],
)
def test_numbers(shown, expected):
    assert shown == expected


def test_what_cannot_be_seen_is_written_out():
    assert visible("a\x07b") == "a⟨U+0007⟩b"
    assert visible("\u202e") == "⟨U+202E⟩"
    assert visible("\u200d") == "⟨U+200D⟩"
    assert visible("क्\u200dष") == "क्\u200dष"
    assert visible("سلام ▁x") == "سلام ▁x"


@given(st.text())
def test_visible_text_has_no_control_or_bidirectional_marks(text):
    assert not set(visible(text)) & {*map(chr, range(32)), *map(chr, range(0x202A, 0x202F)), "\ufeff"}
