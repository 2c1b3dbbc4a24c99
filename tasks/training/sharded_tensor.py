"""Tensors whose rows are divided among processes, and ordinary ones, read in the same way."""

from torch import Tensor
from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process has only some rows of it."""
    return isinstance(tensor, DTensor)


def local(tensor: Tensor) -> Tensor:
    """This process's rows of a sharded tensor, sharing its memory; any other tensor as it is."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def local_rows(tensor: Tensor) -> slice:
    """Which rows of `tensor` are this process's: all of an ordinary one.

    Sharded ones are divided as by `torch.chunk`: as many for each process, but for the last ones.
    """
    if not isinstance(tensor, DTensor):
        return slice(0, len(tensor))
    rows, mesh = len(tensor), tensor.device_mesh
    size = -(-rows // mesh.size())
    begin = min(rows, mesh.get_local_rank() * size)
    return slice(begin, min(rows, begin + size))


def whole(tensor: Tensor) -> Tensor:
    """A tensor whose value is divided among the processes as an ordinary one (all must ask); any other as it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
