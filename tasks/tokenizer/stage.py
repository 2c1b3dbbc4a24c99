"""Stage `tokenizer`: a SentencePiece BPE vocabulary from the corpus, as a Hugging Face tokenizer."""

import json
import os
from time import perf_counter

from configs.schema import TokenizerConfig
from tasks.contract import InputError, Stage, StageContext, StageResult

_CHECK_BATCH = 2048
_COUNT_BATCH = 8192


def run(context: StageContext) -> StageResult:
    """Train, convert, check and count; writes the tokenizer's files, self_check.json and frequencies.parquet.

    Raises:
        InputError: the corpus has no training text, or the vocabulary size does not fit it.
    """
    config: TokenizerConfig = context.config
    if config.threads:
        os.environ["RAYON_NUM_THREADS"] = str(config.threads)

    import numpy as np
    import pyarrow as pa

    from storage.tables import read_batches, write_table
    from tasks.tokenizer.convert import fast_tokenizer, write_tokenizer
    from tasks.tokenizer.frequencies import token_frequencies
    from tasks.tokenizer.sample import count_rows, sample_texts
    from tasks.tokenizer.self_check import check_tokenizer
    from tasks.tokenizer.sentencepiece_bpe import train_bpe

    corpus = context.inputs["corpus"]
    train, validation = corpus / "train.parquet", corpus / "validation.parquet"
    rows = count_rows(train)
    if rows == 0:
        raise InputError("tokenizer: the training split has no text; check corpus.sources and their rejections")
    sentences = min(rows, config.max_sentences)
    context.progress(0, None, "sentences", "training")
    clock = [perf_counter()]
    texts = (text for batch in sample_texts(train, config.max_sentences, config.seed) for text in batch)
    model = train_bpe(texts, config)
    tokenizer = fast_tokenizer(model)
    write_tokenizer(model, tokenizer, context.out)
    clock.append(perf_counter())

    check = check_tokenizer(
        model, tokenizer, (batch.column(0).to_pylist() for batch in read_batches(validation, ["text"], _CHECK_BATCH))
    )
    report = json.dumps(check.as_json(), indent=2, sort_keys=True)
    (context.out / "self_check.json").write_text(report + "\n", encoding="utf-8")
    clock.append(perf_counter())

    done = 0

    def counted(count: int) -> None:
        nonlocal done
        done += count
        context.progress(done, rows, "sentences", "counting tokens")

    counts = token_frequencies(
        tokenizer, (batch.column(0).to_pylist() for batch in read_batches(train, ["text"], _COUNT_BATCH)), counted
    )
    ids = pa.array(np.arange(len(counts), dtype=np.int32))
    write_table(pa.table({"token_id": ids, "count": pa.array(counts)}), context.out / "frequencies.parquet")
    clock.append(perf_counter())
    return StageResult(
        summary={
            "vocab_size": len(counts),
            "training_sentences": sentences,
            "tokens": int(counts.sum()),
            "unused_tokens": int((counts == 0).sum()),
            "round_trip": check.round_trip,
            "same_ids_as_sentencepiece": check.same_ids,
            "awkward_strings_changed": len(check.awkward),
        },
        measurements=[
            {"step": step, "seconds": end - start, "sentences": count}
            for step, start, end, count in zip(
                ("train", "self-check", "frequencies"),
                clock[:-1],
                clock[1:],
                (sentences, check.sentences, rows),
                strict=True,
            )
        ],
    )


STAGE = Stage(name="tokenizer", version=1, config=TokenizerConfig, run=run, isolated=True)
