import sys
import types
from typing import ClassVar

import pytest

from tasks.contract import InputError
from tasks.training.tensorboard_log import CurveWriter, curves_folder


class Recorder:
    """Stands for TensorBoard's writer, which is optional."""

    made: ClassVar[list["Recorder"]] = []

    def __init__(self, folder, purge_step, flush_secs):
        self.folder, self.purge_step, self.points, self.closed = folder, purge_step, [], False
        Recorder.made.append(self)

    def add_scalar(self, name, value, step):
        self.points.append((name, value, step))

    def close(self):
        self.closed = True


@pytest.fixture
def recorder(monkeypatch):
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Recorder
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    Recorder.made = []
    return Recorder.made


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with CurveWriter(None) as writer:
        writer.add(1, {"loss": 2.0})
    assert list(tmp_path.iterdir()) == []


def test_where_it_is_missing_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'langadapt\[tensorboard\]'"):
        CurveWriter(tmp_path)


def test_every_figure_is_a_point_of_its_curve(tmp_path, recorder):
    with CurveWriter(tmp_path) as writer:
        writer.add(1, {"loss": 2.0, "learning_rate": 0.1})
    (made,) = recorder
    assert made.folder == str(tmp_path)
    assert made.points == [("loss", 2.0, 1), ("learning_rate", 0.1, 1)]
    assert made.closed


@pytest.mark.parametrize(("done", "purged"), [(0, 0), (7, 8)])
def test_what_an_interrupted_training_wrote_later_is_hidden(tmp_path, recorder, done, purged):
    CurveWriter(tmp_path, first_step=done).close()
    assert recorder[0].purge_step == purged


def test_with_tensorboard_itself(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is optional: pip install 'langadapt[tensorboard]'")
    with CurveWriter(tmp_path / "curves") as writer:
        writer.add(1, {"loss": 2.0})
    assert list((tmp_path / "curves").iterdir())


def test_each_training_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv("LANGADAPT_TENSORBOARD", raising=False)
    assert curves_folder(tmp_path / "0123456789abcdef", "outer") is None
    monkeypatch.setenv("LANGADAPT_TENSORBOARD", str(tmp_path / "curves"))
    assert curves_folder(tmp_path / "0123456789abcdef", "outer") == tmp_path / "curves" / "outer-0123456789ab"
