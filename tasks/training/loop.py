"""The training loop: optimizer steps, validation, checkpoints, resuming, progress."""

import logging
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from configs.schema import PhaseConfig
from tasks.contract import InputError, Progress
from tasks.durations import in_words
from tasks.training.best_weights import BestWeights
from tasks.training.checkpoint import Checkpoint, CheckpointFolder
from tasks.training.course import Course
from tasks.training.forward import ForwardPass
from tasks.training.held_out import HeldOut, bits_per_byte
from tasks.training.history import History, Scores, StepFigures
from tasks.training.numerics import autocast, random_state, restore_random_state
from tasks.training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer
from tasks.training.packed_batch import Batch
from tasks.training.sharded_tensor import whole
from tasks.training.speed import Speed
from tasks.training.stop_signal import Interrupted, StopSignal
from tasks.training.strategy import Prepared
from tasks.training.tensorboard_log import CurveWriter
from tasks.training.training_text import Rows

# A training has diverged when its loss is so many nats above that of the first step: while it goes on, in each of the
# last steps; at its end, in the mean of the last tenth of the steps (and in none of the last steps below).
FAR_ABOVE, ABOVE, ON_END = 3.0, 1.0, 10

log = logging.getLogger(__name__)


class Diverged(InputError):
    """The loss or the gradient is no longer a number, or the loss is far above what it was before the first step."""


@dataclass(frozen=True)
class Places:
    """Where a training keeps its state.

    Attributes:
        checkpoints: states to go on from.
        best: the weights of the best validation score.
        curves: folder of TensorBoard's curves; None: there are none.
    """

    checkpoints: CheckpointFolder
    best: BestWeights
    curves: Path | None = None


class Trainer:
    """One training; `run` takes it from the last checkpoint to its end.

    Args:
        prepared: the objective on its device, and what is trained of it.
        rows: the text.
        config: everything about the phase.
        course: steps and learning rates.
        forward: passes of micro batches through the objective.
        places: where its state is kept.
    """

    def __init__(
        self, prepared: Prepared, rows: Rows, config: PhaseConfig, course: Course, forward: ForwardPass, places: Places
    ) -> None:
        self.prepared, self.rows, self.config, self.course = prepared, rows, config, course
        self.forward, self.places = forward, places
        self.held_out: HeldOut | None = None
        self.parameters = prepared.parameters
        self.device, self.ranks = forward.device, forward.ranks
        self.optimizer = make_optimizer(self.parameters, prepared.no_decay, config)
        self.history, self.scores = History(), Scores()
        self.speed = Speed(self.device)
        self.step = 0
        self._pending: list[_Pending] = []
        self._curves = CurveWriter()

    def run(self, progress: Progress) -> None:
        """Train to the last step or to the early stop; with validation, the weights are then those of the best score.

        Raises:
            Diverged: the loss or the gradient norm of a step is not finite, or the loss has risen far and stays there.
            Interrupted: SIGTERM came to this process or another one; the state is in a checkpoint.
        """
        self.resume()
        self.prepared.objective.train()
        self.ranks.share_weights(self.parameters.values())
        self.speed.start(self.history.tokens, self.history.padding)
        first = self.step
        with StopSignal() as stop, CurveWriter(self.places.curves, self.step) as self._curves:
            if self.held_out is not None and not self.scores.rows:
                self._validate(self.held_out)
            while not (stopping := self.ranks.any(stop.received)) and not self.finished:
                self._take_step()
                if self.step == first + 1:
                    self._settle()  # a model that gives no numbers is told of at once
                self._after_step(progress)
            if stopping:
                self.save()
                log.warning("SIGTERM: the state after step %d is saved", self.step)
                raise Interrupted(self.step)
        if self.held_out is not None:
            self._take_best()
        else:
            self._refuse_loss_above(ABOVE, self.history.mean_of_last_tenth())

    @property
    def stopped_early(self) -> bool:
        """Whether as many scores as the configuration allows have come without a better one."""
        validation = self.config.validation
        if validation is None or validation.patience is None:
            return False
        return self.scores.since_best() >= validation.patience

    @property
    def finished(self) -> bool:
        """Whether no step is left to do."""
        return self.step >= self.course.steps or self.stopped_early

    def resume(self) -> None:
        """Take the state of the newest whole checkpoint, where there is one."""
        checkpoint = self.places.checkpoints.latest()
        if checkpoint is None:
            return
        self._restore(checkpoint)
        log.info("resumed after step %d of %d", self.step, self.course.steps)

    def save(self) -> None:
        """Write a checkpoint of the state now."""
        self._settle()
        tensors: dict[str, torch.Tensor] = {f"weight/{name}": parameter for name, parameter in self.parameters.items()}
        tensors |= optimizer_tensors(self.optimizer, self.parameters)
        tensors |= {"history": self.history.tensor(), "scores": self.scores.tensor()}
        self.places.checkpoints.save(self.step, tensors, random_state(self.device))
        log.info("checkpoint of step %d written", self.step)
        if self.scores.rows:
            self.places.best.prune(self.scores.best()[0], self.places.checkpoints.steps())

    def _restore(self, checkpoint: Checkpoint) -> None:
        for name, parameter in self.parameters.items():
            checkpoint.copy_to(parameter, f"weight/{name}")
        restore_optimizer(self.optimizer, self.parameters, checkpoint)
        if checkpoint.processes == self.ranks.count:
            restore_random_state(checkpoint.own(self.ranks.rank), self.device)
        else:
            log.warning(
                "the checkpoint is of %d processes, %d go on: sums are rounded otherwise, and dropout is drawn anew",
                checkpoint.processes, self.ranks.count,
            )  # fmt: skip
        self.history = History(checkpoint.tensor("history").numpy())
        self.scores = Scores(checkpoint.tensor("scores").numpy())
        self.step = checkpoint.step

    def _after_step(self, progress: Progress) -> None:
        """What is due after a step: a score, a report, a checkpoint."""
        validation = self.config.validation
        last = self.step == self.course.steps
        if self.held_out is not None and validation is not None and (last or self.step % validation.every == 0):
            self._validate(self.held_out)
        if last or self.step % self.config.log_every == 0 or self.finished:
            self._report(progress)
        if self.step % self.config.checkpoint_every == 0 and not self.finished:
            self.save()

    def _take_step(self) -> None:
        rate = self.course.rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batch = self.rows.read(self.step * self.course.rows, self.course.rows)
        losses = self.gradients(batch)
        norm = whole(nn.utils.clip_grad_norm_(self.parameters.values(), self.config.max_gradient_norm))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.prepared.after_step is not None:
            self.prepared.after_step()
        filled = batch.filled
        self._pending.append(_Pending(rate, losses, norm, filled, batch.tokens.size - filled))
        self.step += 1

    def gradients(self, batch: Batch) -> torch.Tensor:
        """Add the step's gradients: [3] float64: loss of the LM head, what is minimised, predictions of the LM head."""
        with self.prepared.step():
            predictions, summed = self.forward.gradients(batch)
            extra = torch.zeros((), device=self.device)
            if self.prepared.extra_loss is not None:
                extra = self.prepared.extra_loss()
                (extra if self.ranks.sharded else extra / self.ranks.count).backward()  # type: ignore[no-untyped-call]
        self.ranks.sum_gradients(self.parameters.values())
        self.ranks.sum(summed)
        means = summed.double() / predictions.clamp_min(1)
        return torch.stack([means[0], means.sum() + extra.detach().double(), predictions[0].double()])

    def _settle(self) -> None:
        """Read the figures of the steps since the last call (waits for a GPU) and check them."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        losses = torch.stack([step.losses for step in pending]).tolist()
        norms = torch.stack([step.norm for step in pending]).double().tolist()
        for step, (loss, objective, predictions), norm in zip(pending, losses, norms, strict=True):
            if not (np.isfinite(objective) and np.isfinite(norm)):
                raise Diverged(
                    f"step {len(self.history) + 1}: the loss is {objective} and the gradient norm {norm} at learning "
                    f"rate {step.rate:.3g}: lower learning_rate, or raise warmup_steps{self._last_good()}"
                )
            figures = StepFigures(loss, step.rate, norm, objective, step.tokens, predictions, step.padding)
            self.history.append(figures)
            self._curves.add(len(self.history), asdict(figures))
        self._refuse_loss_above(FAR_ABOVE, min(self.history.last_losses(ON_END)))

    def _refuse_loss_above(self, nats: float, loss: float) -> None:
        """Nothing, unless `loss` and all of the last steps are so far above the first step."""
        first, last = self.history.first_loss(), self.history.last_losses(ON_END)
        if len(self.history) > 2 * ON_END and loss > first + nats and min(last) > first:
            raise Diverged(
                f"step {len(self.history)}: the loss began at {first:.3f}, and in the last {ON_END} steps it was "
                f"{min(last):.3f} to {max(last):.3f}: lower learning_rate, or raise warmup_steps"
            )

    def _validate(self, text: HeldOut) -> None:
        """Score the held-out text; the weights are kept where it is the best score."""
        self._settle()
        places = self.forward.micro_batch * self.config.sequence_length
        precision = autocast(self.device, self.forward.bfloat16)
        value = bits_per_byte(self.prepared.objective, text, places, self.device, precision, self.ranks)
        if not np.isfinite(value):
            raise Diverged(
                f"step {self.step}: the validation text has {value} bits per byte: lower learning_rate"
                f"{self._last_good()}"
            )
        best = self.scores.append(self.step, self.history.tokens, value)
        self._curves.add(self.step, {"bits_per_byte": value})
        if best:
            self.places.best.save(self.step, self.parameters, self.places.checkpoints.steps())
        log.info("step %d: %.4f bits per byte on the validation text%s", self.step, value, " (best)" if best else "")

    def _last_good(self) -> str:
        steps = self.places.checkpoints.steps()
        return f"; the checkpoint of step {steps[-1]} is from before" if steps else ""

    def _take_best(self) -> None:
        step, _, value = self.scores.best()
        if self.stopped_early:
            log.info("early stop after step %d", self.step)
        if step != self.step:
            self.places.best.restore(step, self.parameters)
        if step == 0:
            log.warning(
                "no step was better on the validation text than the model before the first one, which it is again: "
                "lower learning_rate, or train longer"
            )
        log.info("the weights are those of step %d: %.4f bits per byte", step, value)

    def _report(self, progress: Progress) -> None:
        self._settle()
        now = self.history
        speed = self.speed.measure(self.step, now.tokens, now.padding)
        left = (self.course.steps - self.step) * now.tokens / self.step / max(speed, 1e-9)
        message = f"loss {now.last().loss:.4f}, learning rate {now.last().learning_rate:.2e}, {speed:,.0f} tokens/s"
        if self.scores.rows:
            message += f", {self.scores.rows[-1][2]:.4f} bits per byte"
        message += f", {in_words(left)} left" if not self.finished else ""
        log.info("step %d of %d: %s", self.step, self.course.steps, message)
        progress(self.step, self.course.steps, "steps", message)


@dataclass(frozen=True)
class _Pending:
    """A step whose figures are still on the device."""

    rate: float
    losses: torch.Tensor
    norm: torch.Tensor
    tokens: int
    padding: int
