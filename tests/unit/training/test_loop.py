import os

import numpy as np
import pytest
import torch

from configs.schema import PhaseConfig
from tasks.training import loop
from tasks.training.best_weights import BestWeights
from tasks.training.checkpoint import CheckpointFolder
from tasks.training.course import make_course
from tasks.training.forward import ForwardPass
from tasks.training.loop import Diverged, Places, Trainer
from tasks.training.numerics import (
    autocast,
    choose_device,
    numeric_settings,
    threads_of_a_process,
    uses_bfloat16,
)
from tasks.training.packing import PackedText
from tasks.training.strategy import prepare
from tasks.training.training_text import OneText, TrainingText

CPU = torch.device("cpu")


def trainer_for(model, sequences: np.ndarray, config: PhaseConfig, place) -> Trainer:
    text = PackedText(sequences, len(sequences), sequences.size)
    training = TrainingText(OneText(text, config.seed), {"target": text}, {"target": 1.0})
    prepared = prepare(model, config, None)
    bfloat16 = uses_bfloat16(config.precision, CPU)
    forward = ForwardPass(prepared.objective, "positions", bfloat16, config.micro_batch_size)
    places = Places(CheckpointFolder(place / "checkpoints", "mark"), BestWeights(place / "best", "mark"))
    return Trainer(prepared, training.rows, config, make_course(config, training), forward, places)


@pytest.fixture
def make_trainer(tmp_path, make_llama, make_phase):
    def make(place="one", mode="all", sequences=None, **values):
        if sequences is None:
            sequences = np.random.default_rng(0).integers(3, 300, size=(20, 16), dtype=np.int32)
        return trainer_for(make_llama(), sequences, make_phase(trainable=mode, layers=1, **values), tmp_path / place)

    return make


def gradients(trainer):
    trainer.gradients(trainer.rows.read(trainer.step * trainer.course.rows, trainer.course.rows))
    return {name.removeprefix("model."): parameter.grad for name, parameter in trainer.parameters.items()}


def test_loss_is_the_models_own(make_trainer, make_llama):
    trainer = make_trainer(batch_size=6, micro_batch_size=4)
    batch = trainer.rows.read(0, 6)
    loss, objective, predictions = trainer.gradients(batch).tolist()
    tokens = torch.from_numpy(batch.tokens)
    model = make_llama()
    expected = model(input_ids=tokens, labels=tokens).loss
    assert loss == objective == pytest.approx(expected.item(), rel=1e-6)
    assert predictions == 6 * 15
    expected.backward()
    torch.testing.assert_close(
        trainer.parameters["model.lm_head.weight"].grad, model.lm_head.weight.grad, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("micro", [1, 4, 5])
def test_accumulation_gives_the_full_batchs_gradient(make_trainer, micro):
    """Also where the last micro batch is smaller than the others."""
    full = gradients(make_trainer(batch_size=6, micro_batch_size=6))
    trainer = make_trainer(batch_size=6, micro_batch_size=micro)
    parts = gradients(trainer)
    for name, gradient in full.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-4, atol=1e-6)


def test_loss_falls_on_repeated_text(make_trainer):
    sequences = np.random.default_rng(0).integers(3, 300, size=(2, 16), dtype=np.int32)
    trainer = make_trainer(steps=40, schedule="constant", sequences=np.tile(sequences, (10, 1)))
    trainer.run(lambda *args: None)
    assert trainer.history.final_loss() < 0.5 * trainer.history.rows()[0, 0]


def test_first_step_by_hand(make_trainer):
    """AdamW's first step: w · (1 - lr · decay) - lr · g / (|g| + 1e-8), g clipped; no decay for norms."""
    trainer = make_trainer(learning_rate=1e-3, warmup_steps=4, weight_decay=0.5, batch_size=4, micro_batch_size=4)
    before = {name: parameter.detach().clone() for name, parameter in trainer.parameters.items()}
    found = {f"model.{name}": gradient.double() for name, gradient in gradients(trainer).items()}
    norm = sum(float((gradient**2).sum()) for gradient in found.values()) ** 0.5
    assert norm > 1.0
    trainer.optimizer.zero_grad()
    trainer._take_step()
    rate = 1e-3 / 4
    for name, weight in before.items():
        gradient, decay = found[name] / norm, 0.5 if weight.ndim == 2 else 0.0
        expected = weight * (1 - rate * decay) - rate * gradient / (gradient.abs() + 1e-8)
        torch.testing.assert_close(trainer.parameters[name].detach().double(), expected, rtol=0, atol=1e-6)


def test_frozen_parameters_get_no_gradient(make_trainer):
    trainer = make_trainer(mode="embeddings")
    gradients(trainer)
    objective = trainer.prepared.objective
    with_gradient = {name for name, p in objective.named_parameters() if p.grad is not None}
    assert with_gradient == {"model.model.embed_tokens.weight"}


def test_gradient_norm_is_that_before_clipping(make_trainer):
    norms = []
    for limit in (1e-4, 1e4):
        trainer = make_trainer(max_gradient_norm=limit, steps=1, place=f"c{limit}")
        trainer.run(lambda *args: None)
        norms.append(trainer.history.rows()[0, 2])
    assert norms[0] == norms[1] > 1e-2


def test_nan_stops_and_keeps_the_checkpoint(make_trainer):
    trainer = make_trainer(steps=20, checkpoint_every=3, log_every=4)
    take_step = trainer._take_step

    def poisoned():
        if trainer.step == 6:
            with torch.no_grad():
                trainer.parameters["model.lm_head.weight"][5, 5] = float("nan")
        take_step()

    trainer._take_step = poisoned
    with pytest.raises(Diverged, match=r"step 7: the loss is nan.*learning rate 0\.00.*lower learning_rate"):
        trainer.run(lambda *args: None)
    assert trainer.places.checkpoints.latest().step == 6


@pytest.fixture
def with_losses(make_trainer, monkeypatch):
    """A trainer whose steps have the given losses; without changing anything."""

    def make(losses, **values):
        trainer = make_trainer(steps=len(losses), log_every=5, **values)

        def take_step():
            figures = torch.tensor([losses[trainer.step]] * 2 + [15.0], dtype=torch.float64)
            trainer._pending.append(loop._Pending(1e-3, figures, torch.tensor(1.0), 16, 0))
            trainer.step += 1

        monkeypatch.setattr(trainer, "_take_step", take_step)
        return trainer

    return make


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        (
            [4.0] + [6.0] * 29,
            r"step 30: the loss began at 4.000, and in the last 10 steps it was 6.000 to 6.000: lower",
        ),
        ([4.0] * 10 + [7.5] * 90, r"step 21: the loss began at 4.000, .* 7.500 to 7.500"),
    ],
)
def test_a_loss_that_stays_far_above_its_beginning_stops_the_training(with_losses, losses, message):
    """At the end 1 nat above is far, 3 in the middle; 21 is the first checkpoint after 10 such steps and 20 in all."""
    with pytest.raises(Diverged, match=message):
        with_losses(losses).run(lambda *args: None)


@pytest.mark.parametrize(
    "losses",
    [
        [4.0] + [6.0] * 19,  # too short to tell
        [4.0] + [9.0] * 9 + [3.0] * 15,  # a spike
        [4.0] + [4.9] * 30,
        [4.0] + [6.9] * 20 + [4.5] * 9,  # high for long, but not at the end
        ([4.0, 9.0] * 20)[:39],  # one of the last steps is no higher
    ],
    ids=str,
)
def test_a_loss_that_is_not_far_above_for_long_is_let_be(with_losses, losses):
    trainer = with_losses(losses)
    trainer.run(lambda *args: None)
    assert trainer.history.column("loss").tolist() == losses


def test_a_learning_rate_far_too_high_is_no_training(make_trainer):
    """Everything stays finite."""
    values = {"learning_rate": 1e6, "warmup_steps": 0, "schedule": "constant", "weight_decay": 0.0}
    trainer = make_trainer(mode="embeddings+head", steps=40, **values)
    with pytest.raises(Diverged, match="the loss began at 5"):
        trainer.run(lambda *args: None)
    assert np.isfinite(trainer.history.rows()).all()


def test_progress_says_loss_rate_speed(make_trainer):
    calls = []
    trainer = make_trainer(steps=7, log_every=3)
    trainer.run(lambda *args: calls.append(args))
    assert [call[:3] for call in calls] == [(3, 7, "steps"), (6, 7, "steps"), (7, 7, "steps")]
    assert "loss 5." in calls[0][3]
    assert "tokens/s" in calls[0][3]
    assert [row["step"] for row in trainer.speed.rows] == [3, 6, 7]
    keys = {"step", "seconds", "tokens_per_second", "padding_share", "peak_memory_bytes"}
    assert all(row.keys() == keys for row in trainer.speed.rows)


def test_bfloat16_forward_keeps_float32_weights(make_trainer):
    trainer = make_trainer(precision="bfloat16", steps=3)
    trainer.run(lambda *args: None)
    exact = make_trainer(precision="float32", steps=3, place="exact")
    exact.run(lambda *args: None)
    assert {p.dtype for p in trainer.parameters.values()} == {torch.float32}
    np.testing.assert_allclose(trainer.history.rows()[:, 0], exact.history.rows()[:, 0], rtol=2e-2)
    assert trainer.history.final_loss() != exact.history.final_loss()


def test_precision_and_device():
    assert not uses_bfloat16("auto", CPU)
    assert uses_bfloat16("bfloat16", CPU)
    assert not uses_bfloat16("float32", CPU)
    with autocast(CPU, bfloat16=True):
        assert torch.ones(2, 2).matmul(torch.ones(2, 2)).dtype == torch.bfloat16
    assert choose_device("cpu") == CPU
    if not torch.cuda.is_available():
        assert choose_device("auto") == CPU
        with pytest.raises(ValueError, match="'cuda' is not available"):
            choose_device("cuda")


@pytest.mark.parametrize(
    ("chosen", "processes", "threads"), [(None, 2, 4), ("1", 2, 4), ("1", 16, 1), ("3", 2, 3), ("2,2", 4, 2)]
)
def test_threads_of_one_of_several_processes(monkeypatch, chosen, processes, threads):
    """A 1 is what launchers set where a person has not; 8 cores here."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
    assert threads_of_a_process(processes) == threads


def test_settings_are_put_back():
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with numeric_settings(CPU, threads=2, seed=5):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 2
        first = torch.rand(3)
    with numeric_settings(CPU, threads=2, seed=5):
        assert torch.equal(torch.rand(3), first)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
