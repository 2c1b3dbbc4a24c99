"""Stage `initial-model`: the source model with the new vocabulary, before any training."""

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from configs.schema import InitialModelConfig
from tasks.contract import InputError, Stage, StageContext, StageResult

if TYPE_CHECKING:
    from tasks.embeddings.new_table import NewRows, TableName
    from tasks.embeddings.verification import HeldOut

_TEXTS = 1000


def run(context: StageContext) -> StageResult:
    """Apply the mapping to the source model and verify what came out.

    Reads: source_model, tokenizer, mapping; for the verification corpus (validation.parquet) and fertility, where they
    are given, and source_tokenizer, where fertility is not.

    Writes a model folder that the Auto classes load, verification.json and verification.parquet. The source model is
    never held whole: a few hundred MiB beside one old and one new table are used until the verification loads the
    new model.

    Raises:
        InputError: a source model that cannot be read or does not belong to the mapping, or a check that failed.
    """
    from tasks.embeddings.initial_model import open_source, write_initial_model
    from tasks.embeddings.verification import refuse_failures, verify, write_verification
    from tasks.pretrained import copy_tokenizer, load_tokenizer

    config: InitialModelConfig = context.config
    clock = [perf_counter()]
    rows = _Rows(context.inputs["mapping"])
    tokenizer = load_tokenizer(context.inputs["tokenizer"], "target tokenizer")
    if (size := max(tokenizer.get_vocab().values()) + 1) != rows.mapping.target_size:
        raise InputError(f"initial-model: the mapping has {rows.mapping.target_size} rows, the tokenizer {size} tokens")
    source = open_source(context.inputs["source_model"])
    clock.append(perf_counter())

    written = write_initial_model(source, lambda name: [rows(name)], tokenizer, config, context.out, context.progress)
    copy_tokenizer(context.inputs["tokenizer"], context.out)
    clock.append(perf_counter())

    context.progress(0, None, "checks", "verifying")
    held_out = _held_out(context.inputs, tokenizer)
    verification = verify(context.out, source, rows, tokenizer, config, held_out)
    write_verification(verification, context.out)
    refuse_failures(verification, tokenizer.convert_ids_to_tokens)
    clock.append(perf_counter())
    return StageResult(
        summary={
            "parameters": written.parameters,
            "vocab_size": written.rows,
            "padding_rows": written.rows - rows.mapping.target_size,
            "drawn_rows": written.drawn,
            "dtype": written.dtype,
            "tied": written.tied,
            "verification": verification.summary(tokenizer.convert_ids_to_tokens),
        },
        measurements=[
            {"step": step, "seconds": end - start, "rows": written.rows, "bytes": written.bytes}
            for step, start, end in zip(("open", "write", "verify"), clock[:-1], clock[1:], strict=True)
        ],
    )


class _Rows:
    """The new rows of each table, from the mapping's folder; rows given as numbers are read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        from tasks.embeddings.dense_files import read_dense_ids
        from tasks.embeddings.mapping_files import read_mapping

        self._folder = folder
        self.mapping, seed = read_mapping(folder)
        self._seed = 0 if seed is None else seed
        self._dense_ids = read_dense_ids(folder, self.mapping.target_size)

    def __call__(self, name: "TableName") -> "NewRows":
        """The rows of the table `name`."""
        from tasks.embeddings.dense_files import read_dense_table
        from tasks.embeddings.new_table import NewRows

        dense = None
        if name != "LM head's bias" and len(self._dense_ids):
            dense = read_dense_table(self._folder, "head" if name == "LM head" else "input")
        return NewRows(self.mapping, self._seed, self._dense_ids, dense)


def _held_out(inputs: Mapping[str, Path], tokenizer: Any) -> "HeldOut":
    """Texts of the validation split, and how both tokenizers cut them."""
    import pyarrow.parquet as pq

    from tasks.embeddings.verification import HeldOut
    from tasks.pretrained import load_tokenizer
    from tasks.tokenizer.fertility import measure

    texts: list[str] = []
    if "corpus" in inputs:
        with pq.ParquetFile(inputs["corpus"] / "validation.parquet") as file:
            batch = next(file.iter_batches(batch_size=_TEXTS, columns=["text"]), None)
            texts = [] if batch is None else batch.column(0).to_pylist()
    if "fertility" in inputs:
        known = {row["tokenizer"]: row for row in pq.read_table(inputs["fertility"] / "fertility.parquet").to_pylist()}
        return HeldOut(texts, known["source"], known["target"])
    if not texts:
        return HeldOut()
    tokenizers = {"after": tokenizer}
    if "source_tokenizer" in inputs:
        tokenizers["before"] = load_tokenizer(inputs["source_tokenizer"], "source tokenizer")
    keys = ("tokens_per_word", "tokens_per_byte", "continued_word_share")
    found = {name: measure(one, [texts]) for name, one in tokenizers.items()}
    figures = {name: {key: float(getattr(total, key)) for key in keys} for name, total in found.items()}
    return HeldOut(texts, figures.get("before"), figures["after"])


STAGE = Stage(name="initial-model", version=2, config=InitialModelConfig, run=run, isolated=True)
