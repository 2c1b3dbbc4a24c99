import numpy as np
import pytest
import torch

from tasks.training.checkpoint import CheckpointFolder
from tasks.training.loop import Diverged, Trainer, summed_loss
from tasks.training.numerics import autocast, choose_device, numeric_settings, uses_bfloat16
from tasks.training.trainable import select_trainable

CPU = torch.device("cpu")


@pytest.fixture
def make_trainer(tmp_path, make_llama, make_phase):
    def make(place="checkpoints", mode="all", **values):
        model = make_llama()
        rng = np.random.default_rng(0)
        sequences = rng.integers(3, 300, size=(20, 16), dtype=np.int32)
        checkpoints = CheckpointFolder(tmp_path / place, "mark")
        return Trainer(model, select_trainable(model, mode, 1), sequences, make_phase(**values), checkpoints)

    return make


def gradients(trainer):
    for part in trainer._losses():
        part.backward()
    return {name: parameter.grad for name, parameter in trainer.parameters.items()}


def test_summed_loss_is_the_models_own(make_llama):
    model = make_llama()
    tokens = torch.randint(0, 300, (3, 12), generator=torch.Generator().manual_seed(0))
    ours = summed_loss(model, tokens) / (3 * 11)
    torch.testing.assert_close(ours, model(input_ids=tokens, labels=tokens).loss)


@pytest.mark.parametrize("micro", [1, 4, 5])
def test_accumulation_gives_the_full_batchs_gradient(make_trainer, micro):
    """Also where the last micro batch is smaller than the others."""
    full = gradients(make_trainer(batch_size=6, micro_batch_size=6))
    trainer = make_trainer(batch_size=6, micro_batch_size=micro)
    assert len(list(trainer._losses())) == -(-6 // micro)
    parts = gradients(trainer)
    for name, gradient in full.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-4, atol=1e-6)


def test_loss_falls_on_repeated_text(make_trainer):
    trainer = make_trainer(steps=40, schedule="constant")
    trainer.sequences = np.tile(trainer.sequences[:2], (10, 1))
    trainer.run(lambda *args: None)
    assert trainer.history.final_loss() < 0.5 * trainer.history.rows()[0, 0]


def test_first_step_by_hand(make_trainer):
    """AdamW's first step: w · (1 - lr · decay) - lr · g / (|g| + 1e-8), g clipped; no decay for norms."""
    trainer = make_trainer(learning_rate=1e-3, warmup_steps=4, weight_decay=0.5, batch_size=4, micro_batch_size=4)
    before = {name: parameter.detach().clone() for name, parameter in trainer.parameters.items()}
    found = {name: gradient.double() for name, gradient in gradients(trainer).items()}
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
    with_gradient = {name for name, p in trainer.model.named_parameters() if p.grad is not None}
    assert with_gradient == {"model.embed_tokens.weight"}


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
                trainer.parameters["lm_head.weight"][5, 5] = float("nan")
        take_step()

    trainer._take_step = poisoned
    with pytest.raises(Diverged, match=r"step 7: the loss is nan.*learning rate 0\.00.*lower learning_rate"):
        trainer.run(lambda *args: None)
    assert trainer.checkpoints.latest().step == 6


def test_progress_says_loss_rate_speed(make_trainer):
    calls = []
    trainer = make_trainer(steps=7, log_every=3)
    trainer.run(lambda *args: calls.append(args))
    assert [call[:3] for call in calls] == [(3, 7, "steps"), (6, 7, "steps"), (7, 7, "steps")]
    assert "loss 5." in calls[0][3]
    assert "tokens/s" in calls[0][3]
    assert [row["step"] for row in trainer.speed.rows] == [3, 6, 7]
    assert all(row.keys() == {"step", "seconds", "tokens_per_second"} for row in trainer.speed.rows)


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
