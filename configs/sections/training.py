"""Training in phases, and the pretraining of a small source model."""

from typing import Literal

from pydantic import Field, model_validator

from configs.sections.base import NAME_PATTERN, NOT_IN_KEY, Config

Trainable = Literal["embeddings", "embeddings+head", "bottom-top", "all"]
Schedule = Literal["constant", "linear", "cosine"]


class Phase(Config):
    """One training phase; a value left out is taken from the `training` section."""

    name: str = Field(pattern=NAME_PATTERN, description="Name of the phase in tables and reports.")
    trainable: Trainable = Field(
        description="'embeddings', 'embeddings+head', 'bottom-top' (embeddings, head and outer layers) or 'all'."
    )
    layers: int = Field(default=2, ge=1, description="'bottom-top': layers trained at each end.")
    share: float = Field(default=1.0, gt=0, description="Weight of this phase in dividing `training.steps`.")
    learning_rate: float | None = Field(default=None, gt=0, description="Peak learning rate of this phase.")
    schedule: Schedule | None = Field(default=None, description="Learning-rate schedule of this phase, after warm-up.")
    schedule_steps: int | None = Field(
        default=None, gt=0, description="Steps the schedule assumes (it may end early); None: the phase's own steps."
    )
    warmup_steps: int | None = Field(default=None, ge=0, description="Warm-up steps of this phase.")


class OptimizationConfig(Config):
    """What the training of a phase and the pretraining of a source model share."""

    sequence_length: int = Field(default=512, ge=8, description="Tokens in a packed sequence.")
    batch_size: int = Field(default=32, ge=1, description="Sequences in an optimizer step.")
    micro_batch_size: int = Field(default=8, ge=1, description="Sequences in a forward pass; the rest is accumulated.")
    learning_rate: float = Field(default=2e-5, gt=0, description="Peak learning rate.")
    schedule: Schedule = Field(default="constant", description="Learning-rate schedule after warm-up.")
    warmup_steps: int = Field(default=75, ge=0, description="Steps of linear warm-up from 0.")
    weight_decay: float = Field(default=0.0, ge=0, description="AdamW weight decay (not on norms).")
    adam_beta1: float = Field(default=0.9, ge=0, lt=1, description="AdamW beta 1.")
    adam_beta2: float = Field(default=0.999, ge=0, lt=1, description="AdamW beta 2.")
    max_gradient_norm: float = Field(default=1.0, gt=0, description="Gradients are clipped to this norm.")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="'auto': bfloat16 autocast on a GPU that has it, else float32."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the order of the text and of initial weights.")
    log_every: int = Field(
        default=10, ge=1, description="Steps between progress reports.", json_schema_extra=NOT_IN_KEY
    )
    checkpoint_every: int = Field(
        default=200, ge=1, description="Steps between checkpoints.", json_schema_extra=NOT_IN_KEY
    )
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 means all.", json_schema_extra=NOT_IN_KEY)
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where it runs.", json_schema_extra=NOT_IN_KEY
    )


class PhaseConfig(OptimizationConfig):
    """One phase with everything filled in: what the training stage reads."""

    name: str = Field(pattern=NAME_PATTERN, description="Name of the phase.", json_schema_extra=NOT_IN_KEY)
    trainable: Trainable = Field(description="Which parameters are trained.")
    layers: int = Field(default=2, ge=1, description="'bottom-top': layers trained at each end.")
    steps: int = Field(ge=1, description="Optimizer steps.")
    schedule_steps: int | None = Field(default=None, gt=0, description="Steps the schedule assumes.")


class TrainingConfig(OptimizationConfig):
    """Training in phases; the phases share `steps` by their weights."""

    steps: int = Field(default=6500, ge=0, description="Optimizer steps over all phases; 0 trains nothing.")
    phases: tuple[Phase, ...] = Field(description="The phases, in order.")

    @model_validator(mode="after")
    def _schedules_are_long_enough(self) -> "TrainingConfig":
        for number, phase in enumerate(self.resolved()):
            if phase.schedule != "constant" and phase.schedule_steps is not None and phase.schedule_steps < phase.steps:
                raise ValueError(
                    f"phases.{number} ({phase.name}) has {phase.steps} steps and a schedule of {phase.schedule_steps}: "
                    "the learning rate would be 0 before the end; lower steps or raise schedule_steps"
                )
        return self

    def resolved(self) -> tuple[PhaseConfig, ...]:
        """The phases with every value filled in; steps are divided by largest remainder, at least 1 a phase."""
        if not self.phases or self.steps == 0:
            return ()
        total = sum(phase.share for phase in self.phases)
        exact = [self.steps * phase.share / total for phase in self.phases]
        steps = [int(value) for value in exact]
        order = sorted(range(len(exact)), key=lambda i: (steps[i] - exact[i], i))
        for i in order[: self.steps - sum(steps)]:
            steps[i] += 1
        base = {name: getattr(self, name) for name in OptimizationConfig.model_fields}
        resolved = []
        for phase, count in zip(self.phases, steps, strict=True):
            own = {
                name: getattr(phase, name)
                for name in ("learning_rate", "schedule", "warmup_steps")
                if getattr(phase, name) is not None
            }
            resolved.append(
                PhaseConfig(
                    **{**base, **own},
                    name=phase.name,
                    trainable=phase.trainable,
                    layers=phase.layers if phase.trainable == "bottom-top" else 2,
                    steps=max(1, count),
                    schedule_steps=phase.schedule_steps,
                )
            )
        return tuple(resolved)


class ArchitectureConfig(Config):
    """Shape of a Llama model built from nothing."""

    hidden_size: int = Field(default=256, ge=8, description="Width of the hidden states.")
    intermediate_size: int = Field(default=704, ge=8, description="Width of the feed-forward layers.")
    layers: int = Field(default=4, ge=1, description="Decoder layers.")
    heads: int = Field(default=4, ge=1, description="Attention heads.")
    key_value_heads: int = Field(default=4, ge=1, description="Key-value heads.")
    max_positions: int = Field(default=1024, ge=8, description="Longest sequence in tokens.")
    tied: bool = Field(default=False, description="The LM head shares the input embeddings.")


class PretrainConfig(OptimizationConfig):
    """Pretraining of a small source model."""

    architecture: ArchitectureConfig = Field(default=ArchitectureConfig(), description="Shape of the model.")
    steps: int = Field(ge=1, description="Optimizer steps.")
