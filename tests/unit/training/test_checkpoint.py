import json
import logging

import pytest
import torch
from safetensors.torch import save_file

from tasks.training.checkpoint import Checkpoint, CheckpointFolder


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "checkpoints"
    checkpoints = CheckpointFolder(place, "mark")
    for step in (5, 10, 15):
        checkpoints.save(step, {"weight/a": torch.full((2, 3), float(step))}, {"cpu": torch.get_rng_state()})
    return place


def test_keeps_the_last_two(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["step-000000010", "step-000000015"]
    checkpoint = CheckpointFolder(folder, "mark").latest()
    assert checkpoint.step == 15
    assert torch.equal(checkpoint.tensor("weight/a"), torch.full((2, 3), 15.0))
    assert torch.equal(checkpoint.own(0)["cpu"], torch.get_rng_state())
    assert "weight/a" in checkpoint
    assert "weight/b" not in checkpoint


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "byte flipped": lambda folder: flip(folder / "state-00000-of-00001.safetensors"),
    "cut short": lambda folder: (folder / "state-00000-of-00001.safetensors").write_bytes(b"\0" * 10),
    "tensors missing": lambda folder: (folder / "state-00000-of-00001.safetensors").unlink(),
    "description missing": lambda folder: (folder / "state.json").unlink(),
    "description cut": lambda folder: (folder / "state.json").write_text('{"format": 1'),
    "another format": lambda folder: (folder / "state.json").write_text(json.dumps({"format": 99})),
    "not JSON": lambda folder: (folder / "state.json").write_bytes(b"\xff\xfe"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_one_is_skipped(folder, damage, caplog):
    damage(folder / "step-000000015")
    assert CheckpointFolder(folder, "mark").latest().step == 10
    assert "checkpoint step-000000015 cannot be used and is removed" in caplog.text
    assert [path.name for path in folder.iterdir()] == ["step-000000010"]


def test_another_training_is_not_taken(folder, caplog):
    caplog.set_level(logging.WARNING)
    assert CheckpointFolder(folder, "other").latest() is None
    assert "another configuration" in caplog.text


def test_none_yet(tmp_path):
    assert CheckpointFolder(tmp_path / "nothing", "mark").latest() is None


def test_unfinished_one_is_ignored(folder):
    (folder / "unfinished-000000018").mkdir()
    (folder / "unfinished-000000018" / "state-00000-of-00001.safetensors").write_bytes(b"\0" * 100)
    assert CheckpointFolder(folder, "mark").latest().step == 15
    CheckpointFolder(folder, "mark").save(20, {"weight/a": torch.zeros(1)})
    assert sorted(path.name for path in folder.iterdir()) == ["step-000000015", "step-000000020"]


def test_rows_of_several_processes_are_put_together(tmp_path):
    """Two processes had 3 and 2 rows; any number of processes reads them."""
    values = torch.arange(15.0).view(5, 3)
    for rank, rows in enumerate((values[:3], values[3:])):
        save_file({"weight/a": rows.clone(), "own/cpu": torch.tensor([rank])}, tmp_path / f"{rank}")
    checkpoint = Checkpoint(7, [tmp_path / "0", tmp_path / "1"])
    target = torch.zeros(5, 3)
    checkpoint.copy_to(target, "weight/a")
    assert torch.equal(target, values)
    assert checkpoint.processes == 2
    assert checkpoint.own(1) == {"cpu": torch.tensor([1])}


@pytest.mark.parametrize("shape", [(4, 3), (6, 3), (5, 2)])
def test_another_shape_is_refused(tmp_path, shape):
    save_file({"weight/a": torch.zeros(5, 3)}, tmp_path / "0")
    with pytest.raises(ValueError, match="weight/a has"):
        Checkpoint(7, [tmp_path / "0"]).copy_to(torch.zeros(shape), "weight/a")
