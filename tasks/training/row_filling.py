"""Pieces of text put together into rows of one length: rows nearly full, and pieces of all lengths in each."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

OPENED = 0.5  # rows of a round over those that the pieces left would fill
TOLERANCE = 1.005  # rows that a mixture of lengths may cost, over rows filled longest first


def fill_rows(lengths: Ints, capacity: int, generator: np.random.Generator) -> Ints:
    """The row of each piece: [pieces] int64, rows numbered from 0, none empty, none over `capacity` tokens.

    Goes in rounds. A round opens rows for half (`OPENED`) of the pieces left, lays the pieces end to end in random
    order over the rows, and takes up again those that lie across a row's end or beyond the last row. Of these, again
    and again, the longest that fits goes to the row with the most room: mostly one of exactly its length. What fits
    nowhere is for the next round. Rows so hold long and short pieces as chance has it, where first-fit-decreasing makes
    rows of long ones, then of short ones, and are as full as its rows.

    Where most pieces are about as long as a row, chance takes the room that their partners need: where it costs more
    than 0.5 % of the rows (`TOLERANCE`), the first step is left out.

    Works on classes of equal room and equal length: about 2·`capacity` steps a round at most, whatever the number of
    pieces.

    Args:
        lengths: [pieces] int64, tokens of each, 1…`capacity`.
        capacity: tokens of a row.
        generator: decides what is left to chance.

    Raises:
        ValueError: a piece has no tokens, or more than a row.
    """
    if len(lengths) and not 1 <= lengths.min() <= lengths.max() <= capacity:
        raise ValueError(f"pieces have {lengths.min()} to {lengths.max()} tokens; a row takes 1 to {capacity}")
    order = generator.permutation(len(lengths))
    mixed = _fill(lengths, capacity, order, by_chance=True)
    longest_first = _fill(lengths, capacity, order, by_chance=False)
    worth_it = mixed.max(initial=0) <= TOLERANCE * longest_first.max(initial=0)
    return mixed if worth_it else longest_first


def _fill(lengths: Ints, capacity: int, order: Ints, by_chance: bool) -> Ints:
    rows = np.full(len(lengths), -1, dtype=np.int64)
    opened, left = 0, order
    while len(left):
        count = max(1, int(OPENED * int(lengths[left].sum()) / capacity))
        room = np.full(count, capacity, dtype=np.int64)
        if by_chance and count > 1:
            _lay(rows, left, lengths, opened, room)
            left = left[rows[left] < 0]
        _close(rows, left, lengths, opened, room)
        left = left[rows[left] < 0]
        opened += count
    numbers: Ints = np.unique(rows, return_inverse=True)[1]
    return numbers


def _lay(rows: Ints, pieces: Ints, lengths: Ints, opened: int, room: Ints) -> None:
    """Lay `pieces` end to end over the rows `opened`…; those that lie in one row go there, and take of its `room`."""
    capacity = int(room[0])
    ends = np.cumsum(lengths[pieces])
    row = (ends - lengths[pieces]) // capacity
    inside = (row == (ends - 1) // capacity) & (row < len(room))
    rows[pieces[inside]] = opened + row[inside]
    room -= np.bincount(row[inside], weights=lengths[pieces[inside]], minlength=len(room)).astype(np.int64)


def _close(rows: Ints, pieces: Ints, lengths: Ints, opened: int, room: Ints) -> None:
    """Give the longest of `pieces` that fits to the row with the most `room` of the rows `opened`…, while any fits."""
    largest = int(room.max())
    pieces = pieces[np.argsort(lengths[pieces], kind="stable")]
    places = np.cumsum(np.bincount(lengths[pieces], minlength=largest + 1)).tolist()
    starts, ends = [0, *places[:-1]], places
    by_room = np.argsort(room, kind="stable")
    borders = np.searchsorted(room[by_room], np.arange(largest + 2))
    waiting = [[opened + by_room[borders[size] : borders[size + 1]]] for size in range(largest + 1)]
    longest = largest
    for size in range(largest, 0, -1):
        here = np.concatenate(waiting[size])
        longest = min(longest, size)
        while len(here):
            while longest > 0 and starts[longest] == ends[longest]:
                longest -= 1
            if longest == 0:
                return
            taken = min(len(here), ends[longest] - starts[longest])
            rows[pieces[ends[longest] - taken : ends[longest]]] = here[:taken]
            ends[longest] -= taken
            waiting[size - longest].append(here[:taken])
            here = here[taken:]
