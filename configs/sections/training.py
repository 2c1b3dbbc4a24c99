"""Training in phases."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from configs.sections.base import NAME_PATTERN, NOT_IN_KEY, Config, Share
from configs.sections.optimization import (
    BATCHES,
    BUDGETS,
    WARM_UPS,
    Groups,
    OptimizationConfig,
    Packing,
    Schedule,
    only_one,
)
from configs.sections.training_parts import AdapterConfig, LoraConfig, MixtureConfig, ValidationConfig

Trainable = Literal["embeddings", "embeddings+head", "bottom-top", "lora", "new-rows", "adapter", "all"]
DEFAULT_STEPS = 6500


class Phase(Config):
    """One training phase; a value left out is taken from the `training` section."""

    alternatives: ClassVar[Groups] = (BUDGETS, BATCHES, WARM_UPS)

    name: str = Field(pattern=NAME_PATTERN, description="Name of the phase in tables and reports.")
    trainable: Trainable = Field(
        description="'embeddings', 'embeddings+head', 'bottom-top' (embeddings, head and outer layers), 'lora' "
        "(low-rank matrices in all decoder layers; embeddings and head in full), 'new-rows' (embedding and head rows "
        "of tokens that are not copies), 'adapter' (a matrix that makes the new embeddings from the source model's; "
        "the first phase only) or 'all'."
    )
    layers: int = Field(default=2, ge=1, description="'bottom-top': layers trained at each end.")
    lora: LoraConfig | None = Field(default=None, description="'lora': its size.")
    adapter: AdapterConfig | None = Field(default=None, description="'adapter': its kind.")
    share: float = Field(
        default=1.0, gt=0, description="Weight of this phase in dividing the section's steps, tokens or epochs."
    )
    steps: int | None = Field(default=None, ge=1, description="Optimizer steps of this phase, not divided from any.")
    tokens: int | None = Field(default=None, ge=1, description="Tokens of this phase, padding not counted.")
    epochs: float | None = Field(default=None, gt=0, description="Passes of this phase over the target text.")
    objective: Literal["clm", "mtp"] | None = Field(default=None, description="Objective of this phase.")
    extra_heads: int | None = Field(default=None, ge=1, description="Extra heads of this phase ('mtp').")
    packing: Packing | None = Field(default=None, description="Packing of this phase.")
    mixture: MixtureConfig | None = Field(default=None, description="Texts of this phase.")
    sequence_length: int | None = Field(default=None, ge=8, description="Tokens in a sequence of this phase.")
    batch_size: int | None = Field(default=None, ge=1, description="Sequences in an optimizer step of this phase.")
    batch_tokens: int | None = Field(default=None, ge=8, description="Tokens in an optimizer step of this phase.")
    micro_batch_size: int | Literal["auto"] | None = Field(
        default=None, description="Sequences in a forward pass of this phase."
    )
    gradient_checkpointing: bool | None = Field(
        default=None, description="Gradient checkpointing in this phase.", json_schema_extra=NOT_IN_KEY
    )
    validation: ValidationConfig | None = Field(default=None, description="Validation of this phase.")
    learning_rate: float | None = Field(default=None, gt=0, description="Peak learning rate of this phase.")
    schedule: Schedule | None = Field(default=None, description="Learning-rate schedule of this phase, after warm-up.")
    schedule_steps: int | None = Field(
        default=None, gt=0, description="Steps the schedule assumes (it may end early); None: the phase's own steps."
    )
    warmup_steps: int | None = Field(default=None, ge=0, description="Warm-up steps of this phase.")
    warmup_ratio: Share | None = Field(default=None, description="Warm-up of this phase as a share of the schedule.")
    weight_decay: float | None = Field(default=None, ge=0, description="AdamW weight decay of this phase.")

    @model_validator(mode="after")
    def _settings_are_read(self) -> "Phase":
        for names in self.alternatives:
            only_one(self, names)
        for name in ("lora", "adapter"):
            if getattr(self, name) is not None and self.trainable != name:
                raise ValueError(f"{name} is set, but trainable is {self.trainable!r}: leave it out, or train {name!r}")
        if self.layers != type(self).model_fields["layers"].default and self.trainable != "bottom-top":
            raise ValueError(f"layers is set, but trainable is {self.trainable!r}: leave it out, or train 'bottom-top'")
        return self

    @property
    def has_budget(self) -> bool:
        """Whether it says itself how long it is."""
        return any(getattr(self, name) is not None for name in BUDGETS)


class PhaseConfig(OptimizationConfig):
    """One phase with everything filled in: what the training stage reads."""

    alternatives: ClassVar[Groups] = (BUDGETS, BATCHES, WARM_UPS)

    name: str = Field(pattern=NAME_PATTERN, description="Name of the phase.", json_schema_extra=NOT_IN_KEY)
    trainable: Trainable = Field(description="Which parameters are trained.")
    layers: int = Field(default=2, ge=1, description="'bottom-top': layers trained at each end.")
    lora: LoraConfig = Field(default=LoraConfig(), description="'lora': its size.")
    adapter: AdapterConfig = Field(default=AdapterConfig(), description="'adapter': its kind.")
    steps: int | None = Field(default=None, ge=1, description="Optimizer steps.")
    tokens: int | None = Field(default=None, ge=1, description="Tokens trained on, padding not counted.")
    epochs: float | None = Field(default=None, gt=0, description="Passes over the target text.")
    schedule_steps: int | None = Field(default=None, gt=0, description="Steps the schedule assumes.")
    mixture: MixtureConfig | None = Field(default=None, description="Texts and their shares; None: the target text.")

    @model_validator(mode="after")
    def _can_be_trained(self) -> "PhaseConfig":
        if not any(getattr(self, name) is not None for name in BUDGETS):
            raise ValueError(f"phase {self.name!r} has no length: give one of {', '.join(BUDGETS)}")
        if self.trainable == "adapter" and self.objective != "clm":
            raise ValueError(
                f"phase {self.name!r} trains adapters with the objective {self.objective!r}: set its objective to clm"
            )
        return self


class TrainingConfig(OptimizationConfig):
    """Training in phases; phases without a budget of their own share that of the section by their weights."""

    alternatives: ClassVar[Groups] = (BUDGETS, BATCHES, WARM_UPS)

    steps: int | None = Field(
        default=None,
        ge=0,
        description=f"Optimizer steps over all phases; 0 trains nothing. {DEFAULT_STEPS:,} where no budget is given.",
    )
    tokens: int | None = Field(default=None, ge=1, description="Tokens over all phases, padding not counted.")
    epochs: float | None = Field(default=None, gt=0, description="Passes over the target text, over all phases.")
    mixture: MixtureConfig | None = Field(default=None, description="Texts and their shares; null: the target text.")
    phases: tuple[Phase, ...] = Field(description="The phases, in order.")

    @model_validator(mode="before")
    @classmethod
    def _fill_budget(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or any(data.get(name) is not None for name in BUDGETS):
            return data
        phases = data.get("phases") or ()
        own = [_has_budget(phase) for phase in phases] if isinstance(phases, list | tuple) else []
        return data if own and all(own) else {**data, "steps": DEFAULT_STEPS}

    @model_validator(mode="after")
    def _budget_is_used(self) -> "TrainingConfig":
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if given and self.steps != 0 and self.phases and all(phase.has_budget for phase in self.phases):
            raise ValueError(
                f"{given[0]} is divided among the phases, but every phase has a length of its own: leave one out"
            )
        return self

    @model_validator(mode="after")
    def _adapters_come_first(self) -> "TrainingConfig":
        late = [number for number, phase in enumerate(self.phases) if number and phase.trainable == "adapter"]
        if late:
            raise ValueError(
                f"phases.{late[0]} trains adapters, which make the new embeddings from the source model's: put it first"
            )
        return self

    @model_validator(mode="after")
    def _settings_of_phases_are_read(self) -> "TrainingConfig":
        for number, phase in enumerate(self.phases):
            objective, schedule = phase.objective or self.objective, phase.schedule or self.schedule
            if phase.extra_heads is not None and objective != "mtp":
                raise ValueError(f"phases.{number} has extra_heads, but its objective is {objective!r}: leave them out")
            if phase.schedule_steps is not None and schedule == "constant":
                raise ValueError(f"phases.{number} has schedule_steps, but its schedule is constant: leave them out")
        return self

    @model_validator(mode="after")
    def _schedules_are_long_enough(self) -> "TrainingConfig":
        for number, phase in enumerate(self.resolved()):
            assumed, steps = phase.schedule_steps, phase.steps
            if phase.schedule != "constant" and assumed is not None and steps is not None and assumed < steps:
                raise ValueError(
                    f"phases.{number} ({phase.name}) has {steps} steps and a schedule of {assumed}: "
                    "the learning rate would be 0 before the end; lower steps or raise schedule_steps"
                )
        return self

    def resolved(self) -> tuple[PhaseConfig, ...]:
        """The phases with every value filled in; steps are divided by largest remainder, at least 1 a phase."""
        if self.steps == 0:
            return ()
        shared = [phase for phase in self.phases if not phase.has_budget]
        parts = iter(self._divided([phase.share for phase in shared]))
        return tuple(self._filled(phase, {} if phase.has_budget else next(parts)) for phase in self.phases)

    def _divided(self, weights: list[float]) -> list[dict[str, float]]:
        """The section's budget in parts."""
        if self.steps is not None and weights:
            return [{"steps": count} for count in _by_largest_remainder(self.steps, weights)]
        total = sum(weights)
        if self.tokens is not None:
            return [{"tokens": max(1, round(self.tokens * weight / total))} for weight in weights]
        return [{"epochs": (self.epochs or 0) * weight / total} for weight in weights]

    def _filled(self, phase: Phase, budget: Mapping[str, float]) -> PhaseConfig:
        base = {name: getattr(self, name) for name in (*OptimizationConfig.model_fields, "mixture")}
        own = {
            name: getattr(phase, name)
            for name in type(phase).model_fields
            if name != "share" and getattr(phase, name) is not None
        }
        for names in (BATCHES, WARM_UPS):
            if any(name in own for name in names):
                base |= dict.fromkeys(names)
        values = {**base, **budget, **own}
        rows = (values["batch_tokens"] or 0) // values["sequence_length"]
        if rows:  # if the batch is less than a sequence, PhaseConfig will refuse it
            values |= {"batch_size": rows, "batch_tokens": None}
        if phase.trainable != "bottom-top":
            values["layers"] = 2
        if values["objective"] == "clm":
            values["extra_heads"] = 1
        return PhaseConfig(**values)


def _has_budget(phase: Any) -> bool:
    if isinstance(phase, Phase):
        return phase.has_budget
    return isinstance(phase, Mapping) and any(phase.get(name) is not None for name in BUDGETS)


def _by_largest_remainder(total: int, weights: list[float]) -> list[int]:
    """`total` in parts as `weights` say, whole numbers, at least 1 each."""
    exact = [total * weight / sum(weights) for weight in weights]
    parts = [int(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda i: (parts[i] - exact[i], i))
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return [max(1, part) for part in parts]
