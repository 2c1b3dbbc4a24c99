"""The training loop: optimizer steps, checkpoints, resuming, progress."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from configs.schema import PhaseConfig, key_fields
from tasks.contract import InputError, Progress
from tasks.training.checkpoint import Checkpoint, CheckpointFolder
from tasks.training.history import History
from tasks.training.numerics import autocast, random_state, restore_random_state, uses_bfloat16
from tasks.training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer
from tasks.training.order import batch_indices
from tasks.training.schedule import LearningRate
from tasks.training.speed import Speed
from tasks.training.stop_signal import Interrupted, StopSignal

log = logging.getLogger(__name__)


class Diverged(InputError):
    """The loss or the gradient is no longer a number; the last checkpoint is from before."""


class Trainer:
    """One training of `model` on `sequences`; `run` takes it from the last checkpoint to its end.

    Args:
        model: a causal language model of transformers, on its device, `parameters` marked for training.
        parameters: the trained parameters, by name.
        sequences: [sequences, length] int32 token ids.
        config: everything about the phase.
        checkpoints: where its state is kept.
    """

    def __init__(
        self,
        model: Any,
        parameters: Mapping[str, nn.Parameter],
        sequences: npt.NDArray[np.int32],
        config: PhaseConfig,
        checkpoints: CheckpointFolder,
    ) -> None:
        self.model, self.parameters, self.sequences, self.config = model, parameters, sequences, config
        self.checkpoints = checkpoints
        self.device = next(iter(parameters.values())).device
        self.bfloat16 = uses_bfloat16(config.precision, self.device)
        self.optimizer = make_optimizer(parameters, config)
        self.rate = learning_rate(config)
        self.history = History()
        self.speed = Speed(config.batch_size * config.sequence_length)
        self.step = 0
        self._pending: list[tuple[float, torch.Tensor, torch.Tensor]] = []

    def run(self, progress: Progress) -> None:
        """Train to the last step.

        Raises:
            Diverged: the loss or the gradient norm of a step is not finite.
            Interrupted: SIGTERM came; the state is in a checkpoint.
        """
        self.resume()
        self.model.train()
        self.speed.start(self.step)
        with StopSignal() as stop:
            while self.step < self.config.steps and not stop.received:
                self._take_step()
                if self.step % self.config.log_every == 0 or self.step == self.config.steps:
                    self._report(progress)
                if self.step % self.config.checkpoint_every == 0 and self.step < self.config.steps:
                    self.save()
            if stop.received:
                self.save()
                log.warning("SIGTERM: the state after step %d is saved", self.step)
                raise Interrupted(self.step)

    def resume(self) -> None:
        """Take the state of the newest whole checkpoint, where there is one."""
        checkpoint = self.checkpoints.latest()
        if checkpoint is None:
            return
        self._restore(checkpoint)
        log.info("resumed after step %d of %d", self.step, self.config.steps)

    def save(self) -> None:
        """Write a checkpoint of the state now."""
        self._settle()
        tensors: dict[str, torch.Tensor] = {f"weight/{name}": parameter for name, parameter in self.parameters.items()}
        tensors |= optimizer_tensors(self.optimizer, self.parameters)
        tensors |= {f"random/{name}": state for name, state in random_state(self.device).items()}
        self.checkpoints.save(self.step, {**tensors, "history": self.history.tensor()})

    def _restore(self, checkpoint: Checkpoint) -> None:
        tensors = checkpoint.tensors
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"weight/{name}"])
        restore_optimizer(self.optimizer, self.parameters, tensors, checkpoint.step)
        states = {name.removeprefix("random/"): state for name, state in tensors.items() if name.startswith("random/")}
        restore_random_state(states, self.device)
        self.history = History(tensors["history"].numpy())
        self.step = checkpoint.step

    def _take_step(self) -> None:
        rate = self.rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = torch.zeros((), device=self.device)
        for part in self._losses():
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        norm = nn.utils.clip_grad_norm_(self.parameters.values(), self.config.max_gradient_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._pending.append((rate, loss, norm))
        self.step += 1

    def _losses(self) -> Iterator[torch.Tensor]:
        """The step's mean loss in parts, one a micro batch: each is its summed loss over the step's predictions."""
        indices = batch_indices(self.step, self.config.batch_size, len(self.sequences), self.config.seed)
        batch = torch.from_numpy(self.sequences[indices].astype(np.int64)).to(self.device)
        predictions = batch.shape[0] * (batch.shape[1] - 1)
        for tokens in torch.split(batch, self.config.micro_batch_size):
            with autocast(self.device, self.bfloat16):
                summed = summed_loss(self.model, tokens)
            yield summed / predictions

    def _settle(self) -> None:
        """Read the figures of the steps since the last call (waits for a GPU) and check them."""
        if not self._pending:
            return
        rates, losses, norms = zip(*self._pending, strict=True)
        self._pending = []
        figures = torch.stack([torch.stack(losses).double(), torch.stack(norms).double()]).tolist()
        for rate, loss, norm in zip(rates, *figures, strict=True):
            if not (np.isfinite(loss) and np.isfinite(norm)):
                raise Diverged(
                    f"step {len(self.history) + 1}: the loss is {loss} and the gradient norm {norm} at learning rate "
                    f"{rate:.3g}: lower learning_rate, or raise warmup_steps; the last checkpoint is from before"
                )
            self.history.append(loss, rate, norm)

    def _report(self, progress: Progress) -> None:
        self._settle()
        speed = self.speed.measure(self.step)
        left = (self.config.steps - self.step) * self.speed.tokens_per_step / speed
        loss, rate, _ = self.history.rows()[-1]
        message = f"loss {loss:.4f}, learning rate {rate:.2e}, {speed:,.0f} tokens/s, {left:.0f} s left"
        log.info("step %d of %d: %s", self.step, self.config.steps, message)
        progress(self.step, self.config.steps, "steps", message)


def summed_loss(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Summed negative log likelihood (nats, float32) of tokens 1… of each sequence given those before.

    Args:
        model: a causal language model of transformers.
        tokens: [sequences, length] int64.
    """
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")


def learning_rate(config: PhaseConfig) -> LearningRate:
    """The phase's schedule.

    Raises:
        InputError: a falling schedule would be at 0 before the last step.
    """
    total = config.schedule_steps or config.steps
    if config.schedule != "constant" and total < config.steps:
        raise InputError(
            f"schedule_steps is {total}, but the phase has {config.steps} steps: the learning rate would be 0 "
            f"from step {total + 1} on; raise schedule_steps to {config.steps} or more, or lower steps"
        )
    if config.warmup_steps >= config.steps:
        log.warning(
            "warm-up (%d steps) is as long as the training (%d steps): the learning rate ends at %.3g of the peak %.3g",
            config.warmup_steps, config.steps, config.steps / config.warmup_steps, config.learning_rate,
        )  # fmt: skip
    return LearningRate(config.learning_rate, config.schedule, config.warmup_steps, total)


def fingerprint(config: PhaseConfig, parameters: Mapping[str, nn.Parameter], sequences: npt.NDArray[np.int32]) -> str:
    """What must agree for a checkpoint to be taken: configuration, trained parameters' shapes, size of the text."""
    facts = {
        "config": key_fields(config),
        "parameters": {name: list(parameter.shape) for name, parameter in parameters.items()},
        "sequences": list(sequences.shape),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
