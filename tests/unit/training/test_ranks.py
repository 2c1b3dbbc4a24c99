import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.contract import InputError
from tasks.training.numerics import seed_of_rank
from tasks.training.packed_batch import PADDING, Batch
from tasks.training.ranks import ALONE, Ranks, joined, ranks_of_environment

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def batch_of(rows):
    tokens = np.arange(1, rows * 4 + 1).reshape(rows, 4)
    documents = np.broadcast_to(np.arange(rows)[:, None], tokens.shape)
    return Batch(tokens, documents, np.broadcast_to(np.arange(4), tokens.shape))


@given(rows=st.integers(1, 40), count=st.integers(1, 12))
def test_every_row_is_taken_once_and_all_have_as_many(rows, count):
    shares = [Ranks(rank, count).share(batch_of(rows)) for rank in range(count)]
    assert {len(share) for share in shares} == {-(-rows // count)}
    found = np.concatenate([share.tokens for share in shares])
    real = np.concatenate([share.documents for share in shares])[:, 0] != PADDING
    assert sorted(found[real][:, 0]) == [row * 4 + 1 for row in range(rows)]
    assert not found[~real].any()
    assert all(share.is_plain for share in shares)


def test_one_process_has_nothing_to_say():
    assert ALONE.any(True)
    assert not ALONE.any(False)
    assert ALONE.of_first(5) == 5
    assert ALONE.each([1, 2]) == [[1, 2]]
    values = torch.ones(3)
    assert ALONE.sum(values) is values
    with ALONE.first_alone(), ALONE.in_turn():
        ALONE.wait()


def test_the_environment_says_who_one_is(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    assert ranks_of_environment() is ALONE
    for name, value in zip(NAMES, "5817", strict=True):
        monkeypatch.setenv(name, value)
    assert ranks_of_environment(sharded=True) == Ranks(5, 8, 1, 7, True)
    monkeypatch.delenv("LOCAL_RANK")
    with pytest.raises(InputError, match="WORLD_SIZE is 8, but LOCAL_RANK is not set: start the processes with"):
        ranks_of_environment()


def test_without_others_nothing_is_joined(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    with joined(torch.device("cpu"), sharded=True) as ranks:
        assert ranks is ALONE
    assert not torch.distributed.is_initialized()


TALK = """
from pathlib import Path
from torch import nn
from tasks.training import ranks as module
module.BUCKET_NUMBERS = 8
with module.joined(torch.device("cpu"), sharded=False) as ranks:
    me = ranks.rank
    assert ranks == module.Ranks(me, 2, me, 2, False)
    assert ranks.any(me == 1) and not ranks.any(False)
    assert ranks.of_first(5 + me) == 5
    assert ranks.each([me, 7]) == [[0, 7], [1, 7]]
    with ranks.first_alone():
        assert os.path.exists(written) == (me == 1)
        open(written, "w").close()
    ranks.check_shared(Path(shared))
    try:
        ranks.check_shared(Path(shared) / str(me))
        raise AssertionError("each has its own")
    except module.InputError as error:
        assert "is not the same for all processes" in str(error)
    with ranks.in_turn():
        for what in ("begins", "ends"):
            with open(turns, "a") as log:
                print(me, what, file=log)
    shapes = {"large": (3, 4), "strided": (3, 4), "small": (3,), "tiny": (2, 2), "one has it": (2,), "no one": (2,)}
    parameters = {name: nn.Parameter(torch.full(shape, float(me))) for name, shape in shapes.items()}
    ranks.share_weights(parameters.values())
    assert not any(parameter.any() for parameter in parameters.values())
    for number, (name, parameter) in enumerate(parameters.items()):
        if name != "no one" and (me or name != "one has it"):
            parameter.grad = torch.full_like(parameter, number + me)
    parameters["strided"].grad = torch.arange(12.0).view(4, 3).T + me
    ranks.sum_gradients(parameters.values())
    sums = {name: parameter.grad for name, parameter in parameters.items()}
    assert sums.pop("no one") is None
    assert torch.equal(sums.pop("one has it"), torch.full((2,), 5.0))
    assert torch.equal(sums.pop("strided"), 2 * torch.arange(12.0).view(4, 3).T + 1)
    numbers = {name: set(gradient.flatten().tolist()) for name, gradient in sums.items()}
    assert numbers == {"large": {1.0}, "small": {5.0}, "tiny": {7.0}}, numbers
"""


def test_two_processes_talk(tmp_path, start_code):
    together = start_code(
        tmp_path,
        TALK,
        {"written": str(tmp_path / "written"), "turns": str(tmp_path / "turns"), "shared": str(tmp_path)},
    )
    assert together.codes() == [0, 0], together.output(0) + together.output(1)
    assert (tmp_path / "turns").read_text().splitlines() == ["0 begins", "0 ends", "1 begins", "1 ends"]


def test_dropout_differs_between_processes():
    assert seed_of_rank(7, 0) == 7
    drawn = []
    for rank in range(4):
        torch.manual_seed(seed_of_rank(7, rank))
        drawn.append(torch.rand(4).tolist())
    assert len({tuple(values) for values in drawn}) == 4
