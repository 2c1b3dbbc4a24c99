import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.alignment.aer import alignment_error_rate
from tasks.alignment.links import Links, links_of_best, sort_links
from tasks.alignment.pharaoh import format_pharaoh, parse_pharaoh
from tasks.alignment.symmetrization import symmetrize

Pairs = list[set[tuple[int, int]]]


def to_links(pairs: Pairs) -> Links:
    lines = [" ".join(f"{i}-{j}" for i, j in sorted(pair)) for pair in pairs]
    return parse_pharaoh("".join(line + "\n" for line in lines).encode())


def to_sets(links: Links) -> Pairs:
    parts = [links.part(p, p + 1) for p in range(len(links))]
    return [set(zip(part.source.tolist(), part.target.tolist(), strict=True)) for part in parts]


grids = st.lists(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 4))), max_size=4)


@given(grids)
@settings(max_examples=50, deadline=None)
def test_pharaoh_text_round_trip(pairs: Pairs) -> None:
    links = to_links(pairs)
    assert to_sets(links) == pairs
    again = parse_pharaoh("".join(f"{text}\n" for text in format_pharaoh(links).to_pylist()).encode())
    assert to_sets(again) == pairs


def test_pharaoh_reads_empty_lines_spaces_and_carriage_returns() -> None:
    assert to_sets(parse_pharaoh(b"\n0-0  12-3 \r\n")) == [set(), {(0, 0), (12, 3)}]
    assert len(parse_pharaoh(b"")) == 0


@pytest.mark.parametrize("text", [b"0-0\n1\n", b"0-0\n1-\n", b"0-0\na-1\n", b"0-0\n1-2-3\n", b"0-0\n1-2", b"0-0\n-1\n"])
def test_pharaoh_error_names_the_line(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"line 2, byte \d+"):
        parse_pharaoh(text)


def test_links_of_best_drops_null_and_turns_the_reverse_direction() -> None:
    best, offsets = np.array([1, -1, 0, 2], dtype=np.int32), np.array([0, 2, 4])
    assert to_sets(links_of_best(best, offsets, reverse=False)) == [{(1, 0)}, {(0, 0), (2, 1)}]
    assert to_sets(links_of_best(best, offsets, reverse=True)) == [{(0, 1)}, {(0, 0), (1, 2)}]


def test_sort_links_orders_and_drops_duplicates() -> None:
    links = sort_links(parse_pharaoh(b"2-0 0-1 2-0 0-0\n\n1-1\n"))
    assert format_pharaoh(links).to_pylist() == ["0-0 0-1 2-0", "", "1-1"]


def slow_symmetrize(a: set[tuple[int, int]], b: set[tuple[int, int]], method: str) -> set[tuple[int, int]]:
    """Growth as described by Koehn et al. 2005, with sets."""
    if method in ("forward", "reverse"):
        return a if method == "forward" else b
    if method == "union":
        return a | b
    taken = a & b
    if method == "intersection":
        return taken
    sources, targets = {i for i, _ in taken}, {j for _, j in taken}

    def take(link: tuple[int, int]) -> None:
        taken.add(link)
        sources.add(link[0])
        targets.add(link[1])

    changed = True
    while changed:
        changed = False
        for i, j in sorted((a | b) - taken):
            beside = any((i + x, j + y) in taken for x in (-1, 0, 1) for y in (-1, 0, 1))
            if beside and not (i in sources and j in targets):
                take((i, j))
                changed = True
    for links in (a, b) if "final" in method else ():
        for i, j in sorted(links - taken):
            unlinked = (i not in sources) + (j not in targets)
            if unlinked == 2 or (unlinked == 1 and method == "grow-diag-final"):
                take((i, j))
    return taken


METHODS = ["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and", "forward", "reverse"]


@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_symmetrisation_equals_a_slow_one(method: str, data: st.DataObject) -> None:
    a = data.draw(grids)
    b = [data.draw(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 4)))) for _ in a]
    joined = symmetrize(to_links(a), to_links(b), method)
    assert to_sets(joined) == [slow_symmetrize(x, y, method) for x, y in zip(a, b, strict=True)]
    assert to_sets(sort_links(joined)) == to_sets(joined)


def test_symmetrisation_by_hand() -> None:
    forward, reverse = to_links([{(0, 0), (1, 1), (3, 3)}]), to_links([{(0, 0), (1, 2), (2, 2), (4, 3), (5, 5)}])
    assert to_sets(symmetrize(forward, reverse, "grow-diag")) == [{(0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (4, 3)}]
    assert (5, 5) in to_sets(symmetrize(forward, reverse, "grow-diag-final-and"))[0]


def test_symmetrisation_refuses_other_numbers_of_pairs() -> None:
    with pytest.raises(ValueError, match="1 and 2"):
        symmetrize(to_links([set()]), to_links([set(), set()]), "union")


def test_alignment_error_rate_by_hand() -> None:
    found = to_links([{(0, 0), (1, 1)}, {(0, 1)}])
    sure = to_links([{(0, 0)}, {(0, 0)}])
    possible = to_links([{(1, 1)}, set()])  # sure links count as possible
    # A = 3, S = 2, A & S = 1, A & P = 2
    assert alignment_error_rate(found, sure, possible) == pytest.approx(1 - 3 / 5)
    assert alignment_error_rate(sure, sure, sure) == 0.0
    empty = to_links([set()])
    assert alignment_error_rate(empty, empty, empty) == 0.0
    with pytest.raises(ValueError, match="found 2, sure 1"):
        alignment_error_rate(found, empty, empty)
