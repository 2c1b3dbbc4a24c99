"""Every kind of training, stopped at random moments, ends with the same bytes as without a stop."""

import random
from contextlib import suppress
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
import torch

from configs.schema import MixtureConfig, ValidationConfig
from tasks.training import checkpoint

MIXTURE = MixtureConfig(shares={"target": 0.75, "source": 0.25})
KINDS = {
    "mtp": {"objective": "mtp", "extra_heads": 2, "trainable": "bottom-top", "layers": 1},
    "documents": {"packing": "documents", "sequence_length": 32, "batch_size": 5},
    "mixture of documents": {"packing": "documents", "sequence_length": 32, "mixture": MIXTURE},
    "validation": {"validation": ValidationConfig(every=2, sentences=5), "gradient_checkpointing": True},
    # the rate is far too high, so that scores get worse, and the best weights are not the last
    "early stop": {
        "validation": ValidationConfig(every=1, sentences=4, patience=4),
        "learning_rate": 0.2,
        "schedule": "constant",
        "steps": 40,
    },
    "lora": {"trainable": "lora", "objective": "mtp"},
    "epochs": {"steps": None, "epochs": 0.4, "mixture": MixtureConfig(temperature=2.0, fixed={"source": 0.3})},
}


class Killed(BaseException):
    """Not an `Exception`, so that nothing handles it."""


def countdown(moments):
    """A function that raises `Killed` when it is called for the nth time."""
    left = [moments]

    def tick(*args, **settings):
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    return tick


def kill_at(patch, publication, step):
    """Kill at the nth moment before or after a state is published, or in the nth step."""
    publish, clip = checkpoint.publish_folder, torch.nn.utils.clip_grad_norm_
    tick, tock = countdown(publication), countdown(step)
    patch.setattr(checkpoint, "publish_folder", lambda *places: (tick(), publish(*places), tick()))
    patch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *values: (tock(), clip(*values))[1])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, corpus_writer):
    texts = [f"a {word} is not a {word}, number {i}" for i, word in enumerate(["house", "table", "spoon"] * 20)]
    return {"corpus.source": corpus_writer(tmp_path_factory.mktemp("further") / "source", texts)}


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(tmp_path, run_training, make_model_folder, make_phase, inputs, kind, monkeypatch):
    """Kills come in the middle of steps, and between the writing of a state and its publication."""
    values = {"steps": 9, "checkpoint_every": 2, "log_every": 1, **KINDS[kind]}
    model, phase = make_model_folder(attention_dropout=0.1), make_phase(**values)

    def train(place):
        return run_training(tmp_path / place, model, phase, further=inputs if phase.mixture else None)

    whole, kills = train("whole").contents(), []
    generator = random.Random(kind)
    for _ in range(3):
        with monkeypatch.context() as patch, suppress(Killed):
            kill_at(patch, generator.randrange(5, 20), generator.randrange(3, 6))
            train("killed")
            break
        kills.append(len(list((tmp_path / "killed" / "work" / "checkpoints").glob("step-*"))))
    assert train("killed").contents() == whole
    assert len(kills) > 1
    assert max(kills) > 0, "a run must have gone on from a checkpoint"


def test_early_stop_keeps_the_best(tmp_path, run_training, model_folder, make_phase):
    done = run_training(tmp_path / "a", model_folder, make_phase(checkpoint_every=2, **KINDS["early stop"]))
    scores = pq.read_table(done.out / "validation.parquet").to_pydict()
    best = min(scores["bits_per_byte"])
    assert best < scores["bits_per_byte"][0]
    place = scores["bits_per_byte"].index(best)
    assert done.result.summary["bits_per_byte"] == best
    assert done.result.summary["best_step"] == scores["step"][place] == place
    assert done.result.summary["stopped_early"]
    assert len(scores["step"]) == place + 5, "patience 4: four scores after the best one"
    assert done.result.summary["steps"] == place + 4 == pq.read_metadata(done.out / "losses.parquet").num_rows
    assert all(before < after for before, after in pairwise(scores["tokens"]))
    exact = make_phase(**{**KINDS["early stop"], "steps": place, "validation": None})
    short = run_training(tmp_path / "b", model_folder, exact)
    assert short.contents()["model.safetensors"] == done.contents()["model.safetensors"]


def test_gradient_checkpointing_changes_nothing(tmp_path, run_training, model_folder, make_phase):
    plain = run_training(tmp_path / "a", model_folder, make_phase(steps=3))
    saving = run_training(tmp_path / "b", model_folder, make_phase(steps=3, gradient_checkpointing=True))
    assert plain.contents() == saving.contents()
