"""Verification of an initial model: what was written is read again and checked against what it was made of."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from configs.schema import InitialModelConfig
from storage.tables import write_table
from tasks.contract import InputError
from tasks.embeddings.check import Check
from tasks.embeddings.new_table import NewRows, TableName
from tasks.embeddings.safetensors_reader import StoredTensor, read_shards
from tasks.embeddings.stored_model import StoredModel
from tasks.embeddings.verify_forward import (
    check_forward,
    check_generation,
    check_logits,
    hidden_states,
    token_sequences,
)
from tasks.embeddings.verify_tables import TableCheck
from tasks.embeddings.verify_tokenizer import (
    check_fertility,
    check_reachable,
    check_round_trip,
    check_rows,
    check_same,
)
from tasks.pretrained import load_causal_model, load_tokenizer

ROLE = "initial model"  # in errors
VERIFICATION, VERIFICATION_ROWS = "verification.json", "verification.parquet"
_RUNS = _RUN_ROWS = 64


@dataclass(frozen=True)
class HeldOut:
    """What is known of text that nothing was made from.

    Attributes:
        texts: some of it; empty where there is none.
        before: fertility figures of the source tokenizer on it, None where not known.
        after: those of the new one.
    """

    texts: Sequence[str] = ()
    before: Mapping[str, float] | None = None
    after: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Verification:
    """All checks of an initial model.

    Attributes:
        checks: the checks.
        rows: one row for each token: target_id, token, copied, reachable, and for each table its row's length and the
            first token with an equal row.
    """

    checks: tuple[Check, ...]
    rows: pa.Table

    def of(self, status: str) -> list[Check]:
        """The checks with that status."""
        return [check for check in self.checks if check.status == status]

    def summary(self, token: Callable[[int], str]) -> dict[str, Any]:
        """Counts by status, and by check's name the warnings and the measured numbers; for the manifest and the report.

        Args:
            token: the string of a token id.
        """
        return {
            **{status: len(self.of(status)) for status in ("passed", "warning", "skipped")},
            "warnings": {check.name: check.told(token) for check in self.of("warning")},
            "measured": {check.name: check.measured for check in self.checks if check.measured},
        }


def verify(
    folder: Path,
    source: StoredModel,
    rows: Callable[[TableName], NewRows],
    tokenizer: Any,
    config: InitialModelConfig,
    held_out: HeldOut,
) -> Verification:
    """Check the model written to `folder`: its tables, its tokenizer, and the model at work.

    One table of each model is held at a time, then the new model with what transformers needs to run it. Where a table
    fails, the model is not loaded.

    Args:
        folder: the new model.
        source: the model that it was made of.
        rows: where each row of a table comes from.
        tokenizer: the new tokenizer.
        config: as it was written with.
        held_out: text to try it on.

    Raises:
        InputError: the model does not load.
    """
    written = {tensor.name: tensor for shard in read_shards(folder, ROLE) for tensor in shard.tensors}
    columns: dict[str, NDArray[Any]] = {}
    checks: list[Check] = []
    plain = rows("LM head's bias")
    for name, tensor in source.named_tables().items():
        table = _table_check(name, tensor, written[tensor.name], rows(name), config)
        if name == "LM head's bias":
            checks += table.value_checks()
            continue
        checks += table.checks()
        short = "input" if name == "input embeddings" else "head"
        columns[f"{short}_norm"] = table.new_norms[: table.tokens].astype(np.float32)
        columns[f"{short}_equal_to"] = table.equal_to[: table.tokens].astype(np.int32)
        del table
    tokens = plain.mapping.target_size
    own = load_tokenizer(folder, ROLE)
    checks += [check_same(tokenizer, own, held_out.texts), check_rows(own, tokens), check_reachable(own)]
    checks += [check_round_trip(own, held_out.texts), check_fertility(held_out.before, held_out.after)]
    if all(check.status != "failed" for check in checks):
        checks += _at_work(folder, source, written, plain, own, held_out.texts)
    return Verification(tuple(checks), _rows_table(own, plain, checks, columns))


def write_verification(verification: Verification, out: Path) -> None:
    """Write verification.json and verification.parquet into `out`."""
    checks = [check.as_json() for check in verification.checks]
    text = json.dumps({"checks": checks}, indent=2, sort_keys=True, ensure_ascii=False)
    (out / VERIFICATION).write_text(text + "\n", encoding="utf-8")
    write_table(verification.rows, out / VERIFICATION_ROWS)


def refuse_failures(verification: Verification, token: Callable[[int], str]) -> None:
    """Nothing, unless a check failed.

    Raises:
        InputError: names the checks that failed, the rows and their tokens.
    """
    failed = verification.of("failed")
    if failed:
        told = "; ".join(f"{check.name}: {check.told(token)}" for check in failed)
        raise InputError(f"{ROLE}: verification failed: {told}")


def _table_check(
    name: TableName, old: StoredTensor, new: StoredTensor, rows: NewRows, config: InitialModelConfig
) -> TableCheck:
    table, source = new.read(), old.read()
    if table.ndim == 1:  # a bias, whose numbers are kept whatever becomes of the rows' lengths
        return TableCheck(name, table[:, None], source.to(table.dtype)[:, None], rows, "keep")
    return TableCheck(name, table, source.to(table.dtype), rows, config.norms)


def _at_work(
    folder: Path,
    source: StoredModel,
    written: Mapping[str, StoredTensor],
    rows: NewRows,
    tokenizer: Any,
    texts: Sequence[str],
) -> list[Check]:
    tokens = rows.mapping.target_size
    sequences = token_sequences(tokenizer, texts, tokens)
    model = load_causal_model(folder, ROLE)
    hidden, finite = hidden_states(model, sequences)
    checks = [check_forward(finite, len(hidden))]
    if finite:
        checks.append(check_generation(model, tokenizer, sequences[0], tokens))
        head = model.get_output_embeddings()
        new = (head.weight.detach(), None if head.bias is None else head.bias.detach())
        made = np.setdiff1d(np.arange(tokens), rows.copied)
        checks.append(check_logits(hidden, new, made, _source_head(source, rows.mapping.source_size)))
    return checks


def _source_head(source: StoredModel, size: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows of the source's LM head (and its bias): all, or 64 runs of 64 that are spread over its vocabulary."""
    table, bias = source.tables.head or source.tables.input, source.tables.bias
    known = min(size, table.shape[0])
    runs = [(0, known)]
    if known > _RUNS * _RUN_ROWS:
        runs = [(start, start + _RUN_ROWS) for start in np.linspace(0, known - _RUN_ROWS, _RUNS).astype(int).tolist()]
    head = torch.cat([table.rows(*run) for run in runs])
    return head, None if bias is None else torch.cat([bias.rows(*run) for run in runs])


def _rows_table(
    tokenizer: Any, rows: NewRows, checks: Sequence[Check], columns: Mapping[str, NDArray[Any]]
) -> pa.Table:
    size = rows.mapping.target_size
    copied, reachable = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
    copied[rows.copied] = True
    lost = next((check.rows for check in checks if check.name == "reachable tokens"), ())
    reachable[np.asarray(lost, dtype=np.int64)] = False
    names = tokenizer.convert_ids_to_tokens(list(range(size)))
    return pa.table(
        {
            "target_id": pa.array(np.arange(size, dtype=np.int32)),
            "token": pa.array(names, pa.string()),
            "copied": pa.array(copied),
            "reachable": pa.array(reachable),
            **{name: pa.array(values) for name, values in columns.items()},
        }
    )
