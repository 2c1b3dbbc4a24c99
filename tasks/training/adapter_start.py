"""From a mapping artifact to an adapted model whose adapters begin as that mapping."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tasks.contract import InputError
from tasks.embeddings.dense_files import read_dense_ids, read_dense_table
from tasks.embeddings.mapping_files import read_mapping
from tasks.embeddings.sparse_rows import SparseRows
from tasks.embeddings.weighted_rows import weighted_rows
from tasks.pretrained import load_config
from tasks.training.adapter import AdaptedModel, Adapter
from tasks.training.adapter_dense import DenseAdapter
from tasks.training.adapter_ends import source_head
from tasks.training.adapter_fit import fitted
from tasks.training.adapter_sparse import SparseAdapter
from tasks.training.adapter_support import nearest, union, with_drawn_rows
from tasks.training.copied_tokens import copied_tokens

DRAWN = "random-combination"  # origin of the rows that 'vocadt' draws
FITTED = 16  # source tokens of a row that is given as numbers
SPECIAL_ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdapterSettings:
    """How adapters are made from a mapping.

    Attributes:
        kind: every entry trained, or only a support.
        auxiliary: weight of the distance of shared tokens' rows from their start (alpha of VocADT).
        nearest: 'sparse': source tokens most similar to a row's start that join its support.
        draws: source tokens of a row for which the mapping has none.
        seed: seed of drawn rows.
    """

    kind: Literal["dense", "sparse"]
    auxiliary: float
    nearest: int
    draws: int
    seed: int


def adapted_model(model: Any, settings: AdapterSettings, mapping: Path) -> AdaptedModel:
    """The source model with two adapters that begin as the mapping in the folder `mapping`.

    A row that the mapping gives as numbers (SAVA, CLP, Avg) begins as the combination of its 16 nearest source tokens
    that comes closest to it. A row that it does not give, or that is a random combination of the source
    tokens ('vocadt'), is drawn: over all of them for a dense adapter (Han et al. 2025, section 3.2), over
    `settings.draws` of them for a sparse one.

    Args:
        model: the source model, of the old vocabulary; changed.
        settings: kind, support and auxiliary loss.
        mapping: folder of the mapping.

    Raises:
        InputError: the mapping does not belong to the model, or the model cannot be adapted.
    """
    loaded, _ = read_mapping(mapping)
    size, shared = loaded.source_size, copied_tokens(loaded)
    numbers = Numbers(mapping, loaded.target_size, np.array(loaded.origins(), dtype=object) != DRAWN)
    adapters: list[Adapter] = []
    for side, table in (("input", model.get_input_embeddings().weight), ("head", source_head(model).weight)):
        if len(table) < size:
            raise InputError(
                f"the mapping is from {size} source tokens, but {type(model).__name__} has {len(table)} rows: adapters "
                "need the source model, of the old vocabulary"
            )
        old = table.detach()[:size]
        start = numbers.added(loaded.rows, side, old)
        adapters.append(_adapter(start, old, shared, settings))
    return AdaptedModel(model, adapters[0], adapters[1], settings.auxiliary)


def _adapter(start: SparseRows, old: torch.Tensor, shared: NDArray[np.int64], settings: AdapterSettings) -> Adapter:
    drawn = int((start.counts() == 0).sum())
    log.info("%s adapter of %d x %d, %d rows drawn", settings.kind, len(start), len(old), drawn)
    if settings.kind == "dense":
        return DenseAdapter(start, len(old), shared, settings.seed)
    if drawn and not settings.draws:
        raise InputError(
            f"the mapping gives {drawn} new tokens no source tokens, and a sparse adapter learns only the entries that "
            "it has: set adapter.draws (source tokens drawn for each of them), or take the kind dense"
        )
    start = with_drawn_rows(start, len(old), settings.draws, settings.seed)
    if settings.nearest:
        start = union(start, nearest(weighted_rows(start, old), old, min(settings.nearest, len(old))))
    return SparseAdapter(start, len(old), shared)


class Numbers:
    """Rows that a mapping gives as numbers.

    Args:
        mapping: folder of the mapping.
        target_size: its rows.
        wanted: bool [target_size]: rows that are taken; others are passed over.

    Attributes:
        rows: int64 [R], target ids.
    """

    def __init__(self, mapping: Path, target_size: int, wanted: NDArray[np.bool_]) -> None:
        self._mapping, ids = mapping, read_dense_ids(mapping, target_size)
        self._taken = np.flatnonzero(wanted[ids])
        self.rows = ids[self._taken]

    def added(self, start: SparseRows, side: str, old: torch.Tensor) -> SparseRows:
        """`start` with entries in these rows: the nearest rows of `old`, combined by least squares."""
        if len(self.rows) == 0:
            return start
        table = read_dense_table(self._mapping, "head" if side == "head" else "input")
        if table is None:  # the source's head is its embeddings
            table = read_dense_table(self._mapping, "input")
        if table is None or table.shape[1] != old.shape[1]:
            raise InputError("the mapping's rows given as numbers do not belong to the source model; build it again")
        own = fitted(torch.from_numpy(table[self._taken]).to(old.device), old, min(FITTED, len(old)))
        return SparseRows.from_coo(
            np.concatenate([start.row_of_entry(), self.rows[own.row_of_entry()]]),
            np.concatenate([start.ids, own.ids]),
            np.concatenate([start.weights, own.weights]),
            len(start),
        )


def take_special_tokens(model: Any, folder: Path) -> None:
    """Give a merged model the special tokens that config.json in `folder` names: those of the new vocabulary.

    Args:
        model: what `AdaptedModel.merge` gave.
        folder: the initial model of the same vocabulary.

    Raises:
        InputError: the configuration cannot be read.
    """
    new = load_config(folder, "initial model")
    for own, other in ((model.config, new), (model.config.get_text_config(), new.get_text_config())):
        for name in (f"{role}_token_id" for role in SPECIAL_ROLES):
            if hasattr(other, name):
                setattr(own, name, getattr(other, name))
