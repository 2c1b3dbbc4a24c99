"""What a source model can take, as far as it is known before anything runs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.schema import BuiltModel, LocalModel, RunConfig
from flows.inputs import model_folder
from tasks.contract import InputError

# As the families of transformers name them: Llama and most others; GPT-2, GPT-J.
POSITIONS = ("max_position_embeddings", "n_positions")
LAYERS = ("num_hidden_layers", "n_layer")


@dataclass(frozen=True)
class ModelLimits:
    """Sizes of a model; None: not known.

    Attributes:
        positions: tokens that it can read at once.
        layers: its decoder layers.
    """

    positions: int | None = None
    layers: int | None = None


def model_limits(run: RunConfig, data_root: Path) -> ModelLimits:
    """The sizes of the source model of `run`: from its configuration, or from config.json of its folder."""
    model = run.model
    if isinstance(model, BuiltModel):
        shape = model.pretraining.architecture
        return ModelLimits(shape.max_positions, shape.layers)
    if not isinstance(model, LocalModel):  # on the hub: nothing is fetched for a plan
        return ModelLimits()
    try:
        found = json.loads((model_folder(model, data_root) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # said where the folder is checked
        return ModelLimits()
    return ModelLimits(_number(found, POSITIONS), _number(found, LAYERS))


def check_phases(run: RunConfig, limits: ModelLimits) -> None:
    """Refuse phases that the model cannot be trained with.

    Raises:
        InputError: a phase has longer sequences than the model has positions, or trains more layers than there are.
    """
    for number, phase in enumerate(run.training.resolved()):
        where = f"training.phases.{number} ({phase.name})"
        if limits.positions is not None and phase.sequence_length > limits.positions:
            raise InputError(
                f"{where}: sequence_length is {phase.sequence_length:,}, but model {run.model.name!r} has "
                f"{limits.positions:,} positions: lower it"
            )
        if limits.layers is not None and phase.trainable == "bottom-top" and phase.layers > limits.layers:
            raise InputError(
                f"{where}: layers is {phase.layers}, but model {run.model.name!r} has {limits.layers} decoder layers: "
                "lower it"
            )


def _number(config: Any, names: tuple[str, ...]) -> int | None:
    found = [config[name] for name in names if isinstance(config, dict) and isinstance(config.get(name), int)]
    return int(found[0]) if found else None
