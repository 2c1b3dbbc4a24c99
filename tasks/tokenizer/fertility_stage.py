"""Stage `fertility`: the source and the target tokenizer on the corpus's validation split."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from configs.schema import FertilityConfig
from tasks.contract import InputError, Stage, StageContext, StageResult

_BATCH = 2048


def run(context: StageContext) -> StageResult:
    """Measure both tokenizers; writes fertility.parquet with one row each ('source', 'target').

    Raises:
        InputError: a folder has no tokenizer, or the validation split is empty.
    """
    import pyarrow as pa

    from storage.tables import write_table
    from tasks.pretrained import load_tokenizer
    from tasks.tokenizer.fertility import measure

    config: FertilityConfig = context.config
    validation = context.inputs["corpus"] / "validation.parquet"
    rows, measurements = [], []
    for done, (name, folder) in enumerate((("source", "source_tokenizer"), ("target", "tokenizer"))):
        context.progress(done, 2, "tokenizers", name)
        start = perf_counter()
        tokenizer = load_tokenizer(context.inputs[folder], f"{name} tokenizer")
        found = measure(tokenizer, _texts(validation, config.max_sentences))
        if not found.sentences:
            raise InputError("fertility: the validation split has no text; raise corpus.validation_share or add text")
        measurements.append({"tokenizer": name, "seconds": perf_counter() - start, "sentences": found.sentences})
        rows.append(
            {
                "tokenizer": name,
                **{key: getattr(found, key) for key in ("sentences", "words", "characters", "bytes", "tokens")},
                **{key: getattr(found, key) for key in ("tokens_per_word", "tokens_per_byte", "continued_word_share")},
            }
        )
    context.progress(2, 2, "tokenizers")
    write_table(pa.Table.from_pylist(rows), context.out / "fertility.parquet")
    summary = {
        f"{row['tokenizer']}_{key}": row[key]
        for row in rows
        for key in ("tokens_per_word", "tokens_per_byte", "continued_word_share")
    }
    return StageResult(summary=summary, measurements=measurements)


def _texts(path: Path, limit: int) -> Iterator[list[str]]:
    """The first `limit` texts of the file, in batches."""
    from storage.tables import read_batches

    for batch in read_batches(path, ["text"], _BATCH):
        texts = batch.column(0).to_pylist()[:limit]
        limit -= len(texts)
        if texts:
            yield texts
        if limit <= 0:
            return


STAGE = Stage(name="fertility", version=1, config=FertilityConfig, run=run)
