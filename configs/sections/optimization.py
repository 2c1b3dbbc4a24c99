"""What every training has: text in batches, an optimizer and its schedule, and where it runs."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from configs.sections.base import NOT_IN_KEY, Config, Share
from configs.sections.training_parts import ProcessesConfig, ValidationConfig

Schedule = Literal["constant", "linear", "cosine"]
Packing = Literal["plain", "documents"]

Groups = tuple[tuple[str, ...], ...]

BUDGETS = ("steps", "tokens", "epochs")
BATCHES = ("batch_size", "batch_tokens")
WARM_UPS = ("warmup_steps", "warmup_ratio")
DEFAULT_BATCH, DEFAULT_WARM_UP = 32, 75


def only_one(config: Config, names: tuple[str, ...]) -> None:
    """Nothing, if at most one of the fields `names` is set.

    Raises:
        ValueError: several are.
    """
    given = [name for name in names if getattr(config, name) is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} say the same thing in two ways: give one of {', '.join(names)}")


class OptimizationConfig(Config):
    """What the training of a phase and the pretraining of a source model share."""

    alternatives: ClassVar[Groups] = (BATCHES, WARM_UPS)

    objective: Literal["clm", "mtp"] = Field(
        default="clm", description="'clm': the next token is predicted; 'mtp': by extra heads those after it too."
    )
    extra_heads: int = Field(
        default=1, ge=1, description="'mtp': heads beside the LM head; head i predicts the token i after the next."
    )
    packing: Packing = Field(
        default="plain",
        description="'plain': documents one after another, cut into sequences; 'documents': whole documents in a "
        "sequence, none sees another.",
    )
    sequence_length: int = Field(default=512, ge=8, description="Tokens in a packed sequence.")
    batch_size: int | None = Field(
        default=None, ge=1, description=f"Sequences in an optimizer step; {DEFAULT_BATCH} without batch_tokens."
    )
    batch_tokens: int | None = Field(
        default=None, ge=8, description="Tokens in an optimizer step, padding included, instead of batch_size."
    )
    micro_batch_size: int | Literal["auto"] = Field(
        default=8,
        description="Sequences in a forward pass; the rest is accumulated. 'auto': on a GPU as many as fit, on a CPU "
        "some 4,096 tokens.",
    )
    gradient_checkpointing: bool = Field(
        default=False,
        description="Compute activations again in the backward pass instead of keeping them: less memory, more time.",
        json_schema_extra=NOT_IN_KEY,
    )
    validation: ValidationConfig | None = Field(
        default=None, description="Scores on held-out text, early stop, and the best weights kept."
    )
    learning_rate: float = Field(default=2e-5, gt=0, description="Peak learning rate.")
    schedule: Schedule = Field(default="constant", description="Learning-rate schedule after warm-up.")
    warmup_steps: int | None = Field(
        default=None,
        ge=0,
        description=f"Steps of linear warm-up from 0; {DEFAULT_WARM_UP} without warmup_ratio.",
    )
    warmup_ratio: Share | None = Field(
        default=None, description="Warm-up as a share of the schedule's steps, instead of warmup_steps."
    )
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
    threads: int = Field(
        default=0,
        ge=0,
        description="CPU threads of a process; 0: all, divided among the processes.",
        json_schema_extra=NOT_IN_KEY,
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where it runs.", json_schema_extra=NOT_IN_KEY
    )
    processes: ProcessesConfig = Field(
        default=ProcessesConfig(),
        description="Processes that share the sequences of each step.",
        json_schema_extra=NOT_IN_KEY,
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_batch_and_warm_up(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        filled = dict(data)
        for names, default in ((BATCHES, DEFAULT_BATCH), (WARM_UPS, DEFAULT_WARM_UP)):
            if all(filled.get(name) is None for name in names):
                filled[names[0]] = default
        return filled

    @model_validator(mode="after")
    def _batch_and_warm_up_are_said_once(self) -> "OptimizationConfig":
        for names in self.alternatives:
            only_one(self, names)
        if self.batch_tokens is not None and self.batch_tokens < self.sequence_length:
            raise ValueError(
                f"batch_tokens is {self.batch_tokens}, less than a sequence of {self.sequence_length} tokens: raise "
                "it, or lower sequence_length"
            )
        if self.objective == "mtp" and self.extra_heads > self.sequence_length - 2:
            raise ValueError(
                f"extra_heads is {self.extra_heads}, but a sequence of {self.sequence_length} tokens has nothing that "
                "the last of them could predict: lower it"
            )
        if self.micro_batch_size != "auto" and self.micro_batch_size < 1:
            raise ValueError(f"micro_batch_size is {self.micro_batch_size}: give 1 or more, or 'auto'")
        return self

    @model_validator(mode="after")
    def _processes_have_work(self) -> "OptimizationConfig":
        count, sharding = self.processes.count, self.processes.sharding
        if count != "gpus" and count > self.rows_per_step:
            raise ValueError(
                f"processes.count is {count}, but a step has {self.rows_per_step} sequences: lower it, or raise "
                "batch_size"
            )
        if sharding == "full" and self.micro_batch_size == "auto":
            raise ValueError(
                "micro_batch_size is 'auto', but with processes.sharding 'full' sizes cannot be tried (a process that "
                "runs out of memory would leave the others waiting): give a number"
            )
        return self

    @property
    def rows_per_step(self) -> int:
        """Sequences in an optimizer step."""
        if self.batch_tokens is not None:
            return self.batch_tokens // self.sequence_length
        return self.batch_size or DEFAULT_BATCH
