"""Stage `tokenizer`: the target vocabulary as a Hugging Face tokenizer, made by the strategy that is configured."""

import json
import os
from pathlib import Path
from time import perf_counter
from typing import Any

from configs.schema import TokenizerConfig
from tasks.contract import WITHOUT_TORCH, InputError, Stage, StageContext, StageResult

_COUNT_BATCH = 8192


def run(context: StageContext) -> StageResult:
    """Make, check and count; writes the tokenizer's files, self_check.json and frequencies.parquet.

    Inputs: `corpus`; `corpus.<code>` for each further language of the group; for 'train', if its special and added
    tokens are to be kept, and for 'expand' and 'source' `source_tokenizer`; for the proof of 'expand' `source_corpus`
    or `bitext`; for 'existing' `helper`. Tokens are counted on the training split of `corpus` alone, the target
    language's.

    Raises:
        InputError: the corpus has no training text, the vocabulary size does not fit it, or the tokenizer that the
            strategy starts from cannot be used.
    """
    config: TokenizerConfig = context.config
    if config.threads:
        os.environ["RAYON_NUM_THREADS"] = str(config.threads)

    from tasks.tokenizer.sample import count_rows
    from tasks.tokenizer.strategies import Job, load_strategy
    from tasks.tokenizer.training_text import TrainingText, corpora_of, source_texts_of, validation_texts

    strategy = load_strategy(config)
    corpora = corpora_of(context.inputs)
    train = corpora[0] / "train.parquet"
    rows = count_rows(train)
    if rows == 0:
        raise InputError("tokenizer: the training split has no text; check corpus.sources and their rejections")
    texts = TrainingText(corpora, config)
    context.progress(0, None, "sentences", "training" if strategy.reads_text else "copying")
    clock = [perf_counter()]
    job = Job(
        config=config,
        inputs=context.inputs,
        out=context.out,
        texts=texts,
        validation=lambda: validation_texts(corpora),
        source_texts=source_texts_of(context.inputs, config.seed),
    )
    made = strategy.make(job)
    clock.append(perf_counter())

    checked = strategy.check(job, made)
    report = json.dumps(checked.report, indent=2, sort_keys=True)
    (context.out / "self_check.json").write_text(report + "\n", encoding="utf-8")
    clock.append(perf_counter())

    counts = _count(context, made.tokenizer, train, rows)
    clock.append(perf_counter())
    return StageResult(
        summary={
            "vocab_size": len(counts),
            "training_sentences": texts.sentences,
            "tokens": int(counts.sum()),
            "unused_tokens": int((counts == 0).sum()),
            **checked.summary,
        },
        measurements=[
            {"step": step, "seconds": end - start, "sentences": count}
            for step, start, end, count in zip(
                ("train" if strategy.reads_text else "copy", "self-check", "frequencies"),
                clock[:-1],
                clock[1:],
                (texts.sentences, checked.sentences, rows),
                strict=True,
            )
        ],
    )


def _count(context: StageContext, tokenizer: Any, train: Path, rows: int) -> Any:
    """Occurrences of every token in the `rows` texts of `train`: int64 [largest id + 1]; writes frequencies.parquet."""
    import numpy as np
    import pyarrow as pa

    from storage.tables import read_batches, write_table
    from tasks.tokenizer.frequencies import token_frequencies

    done = 0

    def counted(count: int) -> None:
        nonlocal done
        done += count
        context.progress(done, rows, "sentences", "counting tokens")

    batches = (batch.column(0).to_pylist() for batch in read_batches(train, ["text"], _COUNT_BATCH))
    counts = token_frequencies(tokenizer, batches, counted)
    ids = pa.array(np.arange(len(counts), dtype=np.int32))
    write_table(pa.table({"token_id": ids, "count": pa.array(counts)}), context.out / "frequencies.parquet")
    return counts


STAGE = Stage("tokenizer", 1, TokenizerConfig, run, isolated=True, environment=WITHOUT_TORCH)
