"""Weights divided among processes (FSDP2): every process keeps some rows of each, and gets the others when needed."""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributed, nn

from tasks.contract import InputError
from tasks.training.lm_head import without_peft
from tasks.training.sharded_tensor import is_sharded, whole
from tasks.training.strategy import Prepared, trained_parameters
from tasks.training.trainable import decoder_layers


def mesh_of(device: torch.device) -> Any:
    """The processes that share the weights, each on its device like `device`; all must ask."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device.type, (distributed.get_world_size(),))


def shard(prepared: Prepared, mesh: Any, bfloat16: bool = False) -> Prepared:
    """`prepared` with every weight divided among the processes of `mesh`, each part on its process's device. Nothing is
    sent. The one given is of no use any more.

    Each decoder layer is a unit, and all else another: the head's weight is read outside its own module's forward
    pass, but inside the objective's. A loss of the step is computed in a pass of the objective too. A sparse adapter
    makes its head in each micro batch, since outside such passes there are no whole weights to make it of.

    With `bfloat16` the decoder layers' weights are sent and used so (autocast would keep a copy of its own of each
    until the backward pass); gradients are summed in float32, and embeddings, head and adapters stay as they are.

    Raises:
        InputError: the model cannot be divided.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    objective: Any = prepared.objective
    scalars = [name for name, parameter in objective.named_parameters() if parameter.ndim == 0]
    if scalars:
        raise InputError(f"processes.sharding 'full' cannot divide {scalars[0]}, a single number: set it to 'none'")
    prepared.parameters.clear()  # or the whole weights would stay alive, on the device
    policy = MixedPrecisionPolicy()
    if bfloat16:
        policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for layer in decoder_layers(_transformer(objective)):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(objective, mesh=mesh)
    objective.token_losses = as_pass(objective, objective.token_losses)
    extra = None if prepared.extra_loss is None else as_pass(objective, prepared.extra_loss)
    return replace(prepared, parameters=trained_parameters(objective), extra_loss=extra, step=nullcontext)


def as_pass(objective: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which reads weights of the sharded `objective`, as a pass of it: they are whole while it runs."""
    from torch.distributed.fsdp import register_fsdp_forward_method

    name = f"pass_{function.__name__}"
    setattr(objective, name, function)
    register_fsdp_forward_method(objective, name)
    called = getattr(objective, name)

    @functools.wraps(function)
    def run(*values: Any, **named: Any) -> Any:
        result = called(*values, **named)
        if not (isinstance(result, Tensor) and result.requires_grad):
            objective.reshard()  # no backward pass does it, and the whole weights would outlive the next change of them
        return result

    return run


def gather(objective: Any, first: bool) -> None:
    """Make the sharded `objective` of the first process an ordinary one on the CPU; the others' are of no use then.

    One weight at a time is whole in a process that does not keep it.
    """
    from torch.distributed.fsdp import FSDPModule

    for module in objective.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
            module.__class__ = type(module).__mro__[2]  # its own class, below the one made by fully_shard
    kept: dict[int, nn.Parameter] = {}
    for name, parameter in list(objective.named_parameters(remove_duplicate=False)):
        if not is_sharded(parameter):
            continue
        if id(parameter) not in kept:
            values = whole(parameter.detach())
            values = values.cpu() if first else values.new_empty(0)
            kept[id(parameter)] = nn.Parameter(values, requires_grad=parameter.requires_grad)
        place, _, own = name.rpartition(".")
        setattr(objective.get_submodule(place), own, kept[id(parameter)])


def _transformer(objective: Any) -> Any:
    """The model of transformers inside an objective, without PEFT's wrapper and without adapters."""
    model = without_peft(objective.model)
    return model if hasattr(model, "get_input_embeddings") else model.model
