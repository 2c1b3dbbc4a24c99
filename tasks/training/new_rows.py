"""Training of some rows of the vocabulary tables, with all others fixed."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from tasks.contract import InputError


class NewRows(nn.Module):
    """A table (or a head's bias) made of fixed rows and of trained ones, which are parameters of their own.

    The optimizer sees the trained rows alone, so that neither its moments nor weight decay reach the others, and their
    memory is that of the trained rows. The table is put together whenever it is read (a copy of it).

    Args:
        ids: int64 [trained rows], ascending.
    """

    ids: Tensor

    def __init__(self, ids: Tensor) -> None:
        super().__init__()
        self.register_buffer("ids", ids, persistent=False)

    def forward(self, fixed: Tensor, new: Tensor) -> Tensor:
        """The table: `fixed` [rows, …] with `new` [trained rows, …] in place of the rows `ids`."""
        return fixed.index_copy(0, self.ids, new)

    def right_inverse(self, table: Tensor) -> tuple[Tensor, Tensor]:
        """`fixed` and `new` of a table."""
        return table.detach(), table.detach()[self.ids].clone()


def split_rows(model: Any, new: NDArray[np.int64]) -> None:
    """Freeze `model` but for the rows `new` of its input embeddings, of its LM head and of the head's bias.

    A tied head keeps sharing fixed and trained rows with the embeddings. The parameters that are trained are
    '….parametrizations.weight.original1' (and 'bias'). `join_rows` makes an ordinary model of it again.

    Args:
        model: a causal language model of transformers with an `nn.Embedding` and an `nn.Linear` at its ends; changed.
        new: int64 [trained rows], ascending.

    Raises:
        InputError: there is no such row, or no row to train.
    """
    embeddings, head = _ends(model)
    rows = len(embeddings.weight)
    if len(new) == 0:
        raise InputError(
            "'new-rows' has nothing to train: every token of the new vocabulary is a copy of an old one; train "
            "'embeddings+head' instead"
        )
    if new[-1] >= rows:
        raise InputError(
            f"'new-rows': the mapping has a token {new[-1]}, but the model has {rows} rows: they do not belong together"
        )
    model.requires_grad_(False)
    tied = head.weight is embeddings.weight
    ids = torch.from_numpy(new).to(embeddings.weight.device)
    trained = [_split(embeddings, "weight", ids)]
    if tied:
        _split(head, "weight", ids)
        for name in ("original0", "original1"):
            setattr(head.parametrizations.weight, name, getattr(trained[0], name))
    else:
        trained.append(_split(head, "weight", ids))
    if head.bias is not None:
        trained.append(_split(head, "bias", ids))
    for part in trained:
        part.original1.requires_grad_(True)


@torch.no_grad()
def join_rows(model: Any) -> None:
    """Undo `split_rows`: ordinary tables with the rows as trained; the other rows have the bits they had."""
    embeddings, head = _ends(model)
    tied = head.parametrizations.weight.original1 is embeddings.parametrizations.weight.original1
    for module, name in ((embeddings, "weight"), (head, "weight"), (head, "bias")):
        if parametrize.is_parametrized(module, name):
            table = getattr(module, name)
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)
            setattr(module, name, nn.Parameter(table))
    if tied:
        head.weight = embeddings.weight


def _split(module: nn.Module, name: str, ids: Tensor) -> Any:
    parametrize.register_parametrization(module, name, NewRows(ids), unsafe=True)  # the check would copy the table
    parts: Any = module.parametrizations[name]  # type: ignore[index]  # a ModuleDict
    return parts


def _ends(model: Any) -> tuple[Any, Any]:
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if not isinstance(embeddings, nn.Embedding) or not isinstance(head, nn.Linear):
        raise InputError(
            f"{type(model).__name__} has no table of input embeddings or no linear LM head: 'new-rows' cannot train it"
        )
    return embeddings, head
