"""Stage `evaluation`: one model measured on held-out text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from configs.schema import EvaluationConfig
from tasks.contract import Stage, StageContext, StageResult

if TYPE_CHECKING:
    from tasks.evaluation.generation import Speed
    from tasks.evaluation.metrics import Totals

SUMMARY_METRICS = ("bits_per_byte", "perplexity_per_native_token", "tokens_per_word")


def run(context: StageContext) -> StageResult:
    """Measure `inputs['model']` on `inputs['corpus']` and write metrics.parquet.

    Reads: model (Hugging Face folder with model and tokenizer), corpus (<split>.parquet with `text`),
    reference_tokenizer (Hugging Face folder, the native tokenizer).

    Raises:
        InputError: a folder lacks what is needed, the split is empty, or model and tokenizer do not belong together.
    """
    import time

    import torch

    from storage.tables import write_table
    from tasks.evaluation.generation import generation_speed
    from tasks.evaluation.loading import pick_device, read_texts
    from tasks.evaluation.metrics import compute
    from tasks.pretrained import load_causal_model, load_tokenizer

    config: EvaluationConfig = context.config
    if config.threads:
        torch.set_num_threads(config.threads)
    texts = read_texts(context.inputs["corpus"], config.split, config.max_sentences)
    tokenizer = load_tokenizer(context.inputs["model"], "model")
    reference = load_tokenizer(context.inputs["reference_tokenizer"], "reference tokenizer")
    device = pick_device(config.device)
    precision: torch.dtype | Literal["auto"] = torch.float32 if config.precision == "float32" else "auto"
    model = load_causal_model(context.inputs["model"], "model", precision).to(device)
    start = time.perf_counter()
    totals = measure(model, tokenizer, reference, texts, context)
    seconds = time.perf_counter() - start
    values = compute(totals)
    write_table(_metrics_table(values, config.split, totals.sentences), context.out / "metrics.parquet")
    speed = generation_speed(
        model, tokenizer, texts[: config.generation_prompts], config.generation_tokens, prefix_token(tokenizer)
    )
    return _result(values, totals, seconds, speed)


def prefix_token(tokenizer: Any) -> int | None:
    """The token that stands before a text: BOS, else EOS, else None."""
    first: int | None = tokenizer.bos_token_id
    last: int | None = tokenizer.eos_token_id
    return last if first is None else first


def measure(model: Any, tokenizer: Any, reference: Any, texts: list[str], context: StageContext) -> Totals:
    """The totals of `texts` under `model`; losses are summed exactly, so their order does not matter.

    Raises:
        InputError: a token id is beyond the model's embeddings.
    """
    import math

    from tasks.evaluation.loading import check_ids
    from tasks.evaluation.metrics import Totals
    from tasks.evaluation.scoring import score
    from tasks.evaluation.windows import cut, unscored_tokens
    from tasks.evaluation.words import count_words

    config: EvaluationConfig = context.config
    prefix = prefix_token(tokenizer)
    token_ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    native_ids = reference(texts, add_special_tokens=False)["input_ids"]
    check_ids(token_ids, model.get_input_embeddings().weight.shape[0], context.inputs["model"])
    window = min(config.window, getattr(model.config, "max_position_embeddings", None) or config.window)
    windows = [part for number, ids in enumerate(token_ids) for part in cut(number, ids, prefix, window)]
    losses = score(model, windows, config.batch_size, context.progress)
    unknown = tokenizer.unk_token_id
    return Totals(
        nll=math.fsum(losses),
        sentences=len(texts),
        bytes=sum(len(text.encode()) for text in texts),
        characters=sum(len(text) for text in texts),
        words=sum(count_words(text) for text in texts),
        tokens=sum(len(ids) for ids in token_ids),
        unscored_tokens=unscored_tokens(windows, prefix),
        unknown_tokens=0 if unknown is None else sum(ids.count(unknown) for ids in token_ids),
        native_tokens=sum(len(ids) for ids in native_ids),
    )


def _metrics_table(values: dict[str, float], split: str, sentences: int) -> Any:
    import pyarrow as pa

    from tasks.evaluation.metrics import METRICS

    return pa.table(
        {
            "metric": pa.array(list(values), pa.string()),
            "value": pa.array(list(values.values()), pa.float64()),
            "unit": pa.array([METRICS[name].unit for name in values], pa.string()),
            "split": pa.array([split] * len(values), pa.string()),
            "sentences": pa.array([sentences] * len(values), pa.int64()),
        }
    )


def _result(values: dict[str, float], totals: Totals, seconds: float, speed: Speed | None) -> StageResult:
    rows: list[dict[str, Any]] = [
        {"metric": "scoring_tokens_per_second", "value": totals.tokens / seconds, "unit": "tokens/s"},
        {"metric": "scoring_bytes_per_second", "value": totals.bytes / seconds, "unit": "bytes/s"},
    ]
    if speed is not None:
        # What the model writes differs from model to model (an unadapted one writes another language): speeds are
        # compared on the measured text, whose bytes a token are known.
        text_speed = speed.tokens_per_second * totals.bytes / totals.tokens
        rows += [
            {"metric": "generation_bytes_per_second", "value": text_speed, "unit": "bytes/s"},
            {"metric": "generation_tokens_per_second", "value": speed.tokens_per_second, "unit": "tokens/s"},
            {"metric": "written_bytes_per_second", "value": speed.bytes_per_second, "unit": "bytes/s"},
        ]
    summary: dict[str, Any] = {name: values[name] for name in SUMMARY_METRICS if name in values}
    summary["sentences"] = totals.sentences
    summary |= {row["metric"]: row["value"] for row in rows if row["metric"].startswith("generation_")}
    if totals.unscored_tokens:
        summary["unscored_tokens"] = totals.unscored_tokens
    return StageResult(summary=summary, measurements=rows)


STAGE = Stage(name="evaluation", version=2, config=EvaluationConfig, run=run, isolated=True)
