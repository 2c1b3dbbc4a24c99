"""What a phase trains: from a model and the phase's configuration to parameters, a loss and the model to save."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from configs.schema import PhaseConfig
from tasks.contract import InputError
from tasks.embeddings.mapping_files import read_mapping
from tasks.training.adapter_objective import AdaptedObjective
from tasks.training.adapter_start import AdapterSettings, adapted_model
from tasks.training.copied_tokens import copied_tokens
from tasks.training.lm_head import base_model
from tasks.training.lora import LoraSettings, add_lora, merge_lora
from tasks.training.new_rows import join_rows, split_rows
from tasks.training.objective import Objective
from tasks.training.trainable import select_trainable, vocabulary_parameters


@dataclass(frozen=True)
class Prepared:
    """What the training loop needs to know of a phase.

    Attributes:
        objective: `Objective` or `AdaptedObjective`: forward(tokens, documents, **inputs) -> Losses.
        base: the model below its head, for `PackedAttention`.
        parameters: what is trained, by the names of `objective.named_parameters()`, in their order.
        no_decay: those of them without weight decay: norms and biases.
        extra_loss: to be added to the loss once a step, or None.
        finish: the ordinary model of transformers to save; the objective is of no use afterwards.
        after_step: to be called after each optimizer step, or None.
        step: the context of a step's forward and backward passes in which a sparse adapter makes its head but once
            (not where weights are sharded).
    """

    objective: nn.Module
    base: nn.Module
    parameters: dict[str, nn.Parameter]
    no_decay: frozenset[str]
    extra_loss: Callable[[], Tensor] | None
    finish: Callable[[], Any]
    after_step: Callable[[], None] | None = None
    step: Callable[[], AbstractContextManager[None]] = nullcontext


def prepare(model: Any, config: PhaseConfig, mapping: Path | None) -> Prepared:
    """Freeze what the phase does not train and put in what it adds. torch's random state is left as it is.

    - 'embeddings', 'embeddings+head', 'bottom-top', 'all': as `select_trainable` says.
    - 'new-rows': of embeddings and head (and its bias) the rows of tokens that are not copies of old ones.
    - 'lora': low-rank matrices at all linear layers of the decoder layers; embeddings and head in full.
    - 'adapter': two adapters over the frozen source model, merged at the end.

    With the objective 'mtp', `config.extra_heads` heads are trained too, in full, and gone at the end.

    Args:
        model: a causal language model of transformers, float32; changed. For 'adapter' the source model, of the old
            vocabulary (`adapter_start.take_special_tokens` completes what `finish` gives).
        config: the phase.
        mapping: folder of the mapping; read for 'new-rows' and 'adapter'.

    Raises:
        InputError: the model cannot be trained this way, or does not belong to the mapping.
    """
    if config.trainable == "adapter":
        return _adapter(model, config, mapping)
    trained, finish = model, lambda: model
    if config.trainable == "new-rows":
        split_rows(model, _new_tokens(mapping))
        finish = partial(_joined, model)
    elif config.trainable == "lora":
        trained = add_lora(model, LoraSettings(config.lora.rank, config.lora.alpha, config.lora.dropout), config.seed)
        finish = partial(merge_lora, trained)
        for parameter in vocabulary_parameters(model):
            parameter.requires_grad_(True)
    else:
        select_trainable(model, config.trainable, config.layers)
    objective = Objective(trained, config.extra_heads if config.objective == "mtp" else 0)
    parameters = trained_parameters(objective)
    vectors = frozenset(name for name, parameter in parameters.items() if parameter.ndim < 2)
    return Prepared(objective, base_model(trained), parameters, vectors, None, finish)


def _adapter(model: Any, config: PhaseConfig, mapping: Path | None) -> Prepared:
    if config.objective != "clm":
        raise InputError(f"adapters are trained with the objective 'clm', not {config.objective!r}")
    chosen = config.adapter
    settings = AdapterSettings(chosen.kind, chosen.auxiliary, chosen.nearest, chosen.draws, config.seed)
    adapted = adapted_model(model, settings, _needed(mapping, "adapter"))
    objective = AdaptedObjective(adapted)
    return Prepared(
        objective=objective,
        base=base_model(model),
        parameters=trained_parameters(objective),
        no_decay=frozenset(),  # weights of a matrix, though a sparse adapter keeps them in one row
        extra_loss=adapted.auxiliary_loss if chosen.auxiliary else None,
        finish=adapted.merge,
        step=adapted.one_step,
    )


def trained_parameters(objective: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of `objective` that are trained, by name."""
    return {name: parameter for name, parameter in objective.named_parameters() if parameter.requires_grad}


def _new_tokens(mapping: Path | None) -> NDArray[np.int64]:
    """The tokens that are no copies, ascending."""
    loaded, _ = read_mapping(_needed(mapping, "new-rows"))
    return np.setdiff1d(np.arange(loaded.target_size), copied_tokens(loaded))


def _joined(model: Any) -> Any:
    join_rows(model)
    return model


def _needed(mapping: Path | None, what: str) -> Path:
    if mapping is None:
        raise InputError(f"a phase that trains {what!r} needs the mapping that the model was made with")
    return mapping
