"""Packed rows as a transformers model takes them: no attention across documents, positions counted in each of them."""

import logging
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tasks.contract import InputError
from tasks.training.evaluation_mode import evaluating
from tasks.training.packed_batch import PADDING, Batch

Method = Literal["positions", "lengths", "mask"]

FIRST, SECOND = 5, 7  # tokens of the two documents that a model is tried on
LEAK = 1e-5
SHIFT = 0.05

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelBatch:
    """A batch on the model's device: `Objective.forward(tokens, documents, **inputs)` takes it as it is.

    Who calls the model itself gives `tokens` as `input_ids`, `inputs` and `use_cache=False`: with a cache, transformers
    does not look at positions to find documents.

    Attributes:
        tokens: [rows, length] int64; with flash attention one row, [1, rows · length].
        documents: as `tokens`, int64: the same number for the tokens of one document in one row, another for every
            other; -1 at padding.
        inputs: further arguments of the model's forward pass.
    """

    tokens: Tensor
    documents: Tensor
    inputs: dict[str, Any]


class PackedAttention:
    """The way in which one model is told where documents begin.

    - `lengths`, with flash attention (2, 3, or a kernel of that name): the batch as one row, position ids, and the
      documents' boundaries for the kernel that takes sequences of several lengths. No mask exists.
    - `positions`, with the other kinds of attention: position ids that restart, from which transformers
      (masking_utils) makes its masks; sliding windows stay as they are.
    - `mask`, where a model does not look at position ids for that (OPT): an additive float32 mask,
      [rows, 1, length, length], the same in all layers.

    A batch of rows that are one document each goes without any of it. But for flash attention it has a mask of ones,
    [rows, length], from which transformers sees that it needs none, and takes the faster kernels.

    Args:
        base: a model of transformers without its LM head, as training calls it (`lm_head.base_model`; the first output
            of its forward pass is the hidden states). It is tried on a few tokens, in the autocast context of the
            caller (under FSDP: on every rank).

    Attributes:
        method: the way.

    Raises:
        InputError: no way keeps documents apart in this model.
    """

    def __init__(self, base: nn.Module) -> None:
        implementation = str(getattr(base.config, "_attn_implementation", None))
        ways: tuple[Method, ...] = ("lengths",) if "flash" in implementation else ("positions", "mask")
        for way in ways:
            if _keeps_apart(base, way):
                self.method: Method = way
                return
        raise InputError(
            f"{type(base).__name__} with attention {implementation!r} looks from one document of a row into another: "
            "use plain packing for this model, or another attention implementation"
        )

    def inputs(self, batch: Batch, device: torch.device) -> ModelBatch:
        """`batch` for the model."""
        return model_batch(batch, self.method, device)


def model_batch(batch: Batch, method: Method, device: torch.device) -> ModelBatch:
    """`batch` on `device`, with documents told apart by `method`."""
    begins = batch.positions == 0
    numbers = np.where(batch.documents == PADDING, PADDING, np.cumsum(begins).reshape(begins.shape))
    tokens, documents, positions = (_tensor(array, device) for array in (batch.tokens, numbers, batch.positions))
    if batch.is_plain:
        return ModelBatch(tokens, documents, {} if method == "lengths" else {"attention_mask": torch.ones_like(tokens)})
    if method == "mask":
        return ModelBatch(tokens, documents, {"position_ids": positions, "attention_mask": _mask(positions)})
    if method == "positions":
        return ModelBatch(tokens, documents, {"position_ids": positions})
    ends = np.append(np.flatnonzero(begins), begins.size)
    boundaries, longest = _tensor(ends.astype(np.int32), device), int(np.diff(ends).max())
    inputs = {
        "position_ids": positions.view(1, -1),
        "cu_seq_lens_q": boundaries,
        "cu_seq_lens_k": boundaries,
        "max_length_q": longest,
        "max_length_k": longest,
    }
    return ModelBatch(tokens.view(1, -1), documents.view(1, -1), inputs)


def _tensor(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(np.require(array, requirements=("C", "W"))).to(device, non_blocking=True)


def _mask(positions: Tensor) -> Tensor:
    """Causal attention within documents as a mask to add: [rows, 1, length, length] float32."""
    documents = (positions == 0).cumsum(1)
    length = positions.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=positions.device).tril()
    seen = causal & (documents[:, :, None] == documents[:, None, :])
    mask = torch.zeros(seen.shape, dtype=torch.float32, device=positions.device)
    return mask.masked_fill_(~seen, torch.finfo(torch.float32).min)[:, None]


def _keeps_apart(base: Any, method: Method) -> bool:
    """Whether the second document of a row gives what it gives after another first one, and what it gives alone.

    The former must hold but for rounding; the latter, which finds positions that go on from document to document, as
    well as half precision allows.
    """
    device = next(base.parameters()).device
    first, other, second = _documents(int(base.config.get_text_config().vocab_size))
    try:
        with evaluating(base), torch.no_grad():
            packed, changed, alone = (
                _hidden(base, model_batch(_row(documents), method, device))[-SECOND:]
                for documents in ([first, second], [other, second], [second])
            )
    except (TypeError, ValueError, RuntimeError) as error:
        log.debug("%s does not take packed rows by %s: %s", type(base).__name__, method, error)
        return False
    size = alone.norm()
    leak, shift = float((packed - changed).norm() / size), float((packed - alone).norm() / size)
    log.debug("%s, packed rows by %s: leak %.2e, shift %.2e", type(base).__name__, method, leak, shift)
    return leak <= LEAK and shift <= SHIFT


def _documents(vocabulary: int) -> list[npt.NDArray[np.int64]]:
    return [np.arange(1, size + 1) * step % vocabulary for size, step in ((FIRST, 3), (FIRST, 7), (SECOND, 5))]


def _row(documents: list[npt.NDArray[np.int64]]) -> Batch:
    sizes = [len(document) for document in documents]
    positions = np.concatenate([np.arange(size) for size in sizes])
    return Batch(np.concatenate(documents)[None], np.repeat(np.arange(len(sizes)), sizes)[None], positions[None])


def _hidden(base: Any, given: ModelBatch) -> Tensor:
    """[length, d] float32."""
    hidden: Tensor = base(input_ids=given.tokens, use_cache=False, **given.inputs)[0]
    return hidden[0].float()
