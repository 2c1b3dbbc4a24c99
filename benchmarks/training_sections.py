"""The sections of the training benchmark that train: plain rows, short sentences, vocabulary adapters."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.alignment_results import Bar, Cell, Section, table
from benchmarks.training_inputs import (
    SUPPORT,
    Shape,
    made_up_sentences,
    real_sentences,
    sample_sentences,
    trained_tokenizer,
    word_tokenizer,
    write_corpus,
    write_model,
    write_random_mapping,
)
from benchmarks.training_runs import MIB, WARM_UP, Request, Runs, in_turns, median_ratio
from tasks.training.adapter_cost import AdapterSizes, dense_cost, plain_cost, sparse_cost

SENTENCES_AT_ONCE = 8  # Trainer's default; with more it pads more
LENGTH = 256
LOSS_TOLERANCE = 1e-3
GIGA = 1e9


@dataclass(frozen=True)
class Adapted:
    """Adapters of these kinds, from a model with `source` tokens to one of `shape`."""

    kinds: tuple[str, ...]
    source: int
    shape: Shape


@dataclass(frozen=True)
class Size:
    """How much is measured.

    Attributes:
        plain: the model of plain rows and of sentences.
        sentences: sentences of a text.
        texts: which texts.
        adapted: the adapters.
        loss: vocabulary, tokens and width.
        steps: steps of a training, the first `WARM_UP` of them not counted.
        rounds: trainings by each way.
        threads: of each training.
    """

    plain: Shape
    sentences: int
    texts: tuple[str, ...]
    adapted: tuple[Adapted, ...]
    loss: tuple[int, int, int]
    steps: int
    rounds: int
    threads: int = 2


FULL = Size(
    plain=Shape(32_000, 256, 4),
    sentences=30_000,
    texts=("sample", "swahili"),
    adapted=(
        Adapted(("sparse",), 32_000, Shape(50_000, 512, 4)),
        Adapted(("sparse", "dense"), 4_000, Shape(6_000, 256, 4)),
    ),
    loss=(131_072, 1024, 512),
    steps=6,
    rounds=3,
)
QUICK = Size(
    plain=Shape(2_000, 64, 2),
    sentences=1_000,
    texts=("sample",),
    adapted=(Adapted(("sparse", "dense"), 1_000, Shape(1_500, 64, 2)),),
    loss=(32_768, 512, 64),
    steps=4,
    rounds=1,
)
TEXTS: dict[str, Callable[[int], list[str]]] = {"sample": sample_sentences, "swahili": real_sentences}


def clm(size: Size, work: Path) -> Section:
    """Plain rows, all parameters trained, against transformers.Trainer on the same rows."""
    tokenizer = word_tokenizer(size.plain.vocabulary)
    texts = made_up_sentences(size.steps * 8 * LENGTH // 15, size.plain.vocabulary)
    inputs = {"model": write_model(work / "model", tokenizer, size.plain), "corpus": write_corpus(work / "text", texts)}
    request = _request(inputs, size, trainable="all", batch_size=8, micro_batch_size=8)
    found = in_turns({"langadapt": ("langadapt", request), "Trainer": ("trainer", request)}, size.rounds)
    ours, theirs = found["langadapt"], found["Trainer"]
    ratio = median_ratio(ours, theirs, "tokens_per_second")
    pairs = zip(ours.runs[0].figures.losses, theirs.runs[0].figures.losses, strict=True)
    difference = max(abs(a - b) for a, b in pairs)
    return Section(
        "clm",
        [_table(f"Plain rows: {size.plain}, steps of 8 x {LENGTH} tokens", found)],
        _figures(found),
        [
            Bar("clm: tokens/s over those of Trainer", ratio, 1.0, disturbed=_disturbed(found)),
            Bar("clm: largest difference of a step's loss", difference, LOSS_TOLERANCE, at_least=False),
        ],
    )


def documents(size: Size, work: Path) -> Section:
    """Short sentences packed, against transformers.Trainer with its padding collator, as many tokens a step."""
    section = Section("documents")
    for name in size.texts:
        if texts := TEXTS[name](size.sentences):
            _documents(section, name, texts, size, work / name)
        else:
            section.notes.append(f"{name}: left out, the text is not there")
    section.notes.append(f"Trainer takes {SENTENCES_AT_ONCE} sentences at once; 'grouped': those of like length.")
    return section


def _documents(section: Section, name: str, texts: list[str], size: Size, work: Path) -> None:
    work.mkdir()
    tokenizer = trained_tokenizer(texts, size.plain.vocabulary)
    inputs = {"model": write_model(work / "model", tokenizer, size.plain), "corpus": write_corpus(work / "text", texts)}
    some = texts[:: max(1, len(texts) // 2000)]
    mean = sum(len(ids) for ids in tokenizer(some)["input_ids"]) / len(some) + 2  # BOS and EOS
    a_step = max(1, round(8 * LENGTH / mean / SENTENCES_AT_ONCE)) * SENTENCES_AT_ONCE
    rows = max(1, round(a_step * mean / LENGTH))
    packed = _request(inputs, size, trainable="all", packing="documents", batch_size=rows, micro_batch_size="auto")
    padded = Request(packed.phase, packed.inputs, a_step, SENTENCES_AT_ONCE)
    ways = {
        "langadapt": ("langadapt", packed),
        "Trainer": ("sentences", padded),
        "Trainer, grouped": ("sentences, grouped", padded),
    }
    found = in_turns(ways, size.rounds)
    title = f"{name}: {mean:.1f} tokens a sentence; {size.plain}, steps of {a_step} sentences ({rows} rows of {LENGTH})"
    section.tables.append(_table(title, found))
    section.figures += _figures(found, text=name)
    ratio = median_ratio(found["langadapt"], found["Trainer"], "tokens_per_second")
    section.bars.append(Bar(f"documents: {name}, tokens/s over Trainer's", ratio, 1.5, disturbed=_disturbed(found)))


def adapter(size: Size, work: Path) -> Section:
    """Vocabulary adapters against training embeddings and head of the same model."""
    section = Section("adapter")
    for number, adapted in enumerate(size.adapted):
        place = work / str(number)
        place.mkdir()
        _adapter(section, adapted, size, place)
    section.tables.append(_costs(size))
    return section


def _adapter(section: Section, adapted: Adapted, size: Size, work: Path) -> None:
    source, shape = adapted.source, adapted.shape
    old, new = word_tokenizer(source), word_tokenizer(shape.vocabulary)
    texts = made_up_sentences(size.steps * 4 * LENGTH // 15, shape.vocabulary)
    model, text = write_model(work / "new", new, shape), write_corpus(work / "text", texts)
    source_model = write_model(work / "old", old, Shape(source, shape.width, shape.layers))
    mapping = write_random_mapping(work / "mapping", new, old)
    inputs = {"model": source_model, "vocabulary": model, "mapping": mapping, "corpus": text}
    batch = {"batch_size": 4, "micro_batch_size": 4}
    plain_request = _request({"model": model, "corpus": text}, size, trainable="embeddings+head", **batch)
    ways = {"embeddings+head": ("langadapt", plain_request)}
    for kind in adapted.kinds:
        ways[kind] = ("langadapt", _request(inputs, size, trainable="adapter", adapter={"kind": kind}, **batch))
    found = in_turns(ways, size.rounds)
    title = f"Adapters: {source:,} source tokens, {shape}, steps of 4 x {LENGTH} tokens"
    section.tables.append(_table(title, found))
    section.figures += _figures(found, source=source, target=shape.vocabulary)
    plain, sparse = found["embeddings+head"], found["sparse"]
    name = f"adapter: sparse over plain, {source:,} -> {shape.vocabulary:,}"
    seconds = median_ratio(sparse, plain, "step_seconds")
    section.bars += [
        Bar(f"{name}, step", seconds, 1.15, at_least=False, disturbed=_disturbed(found)),
        Bar(f"{name}, peak memory", sparse.peak_bytes / plain.peak_bytes, 1.1, at_least=False),
    ]


def _costs(size: Size) -> Table:
    """Operations a token, of what is measured and of Mistral-7B."""
    mean = sum(range(*SUPPORT)) // len(range(*SUPPORT))
    models = {
        str(one.shape): (one.source, one.shape.vocabulary, one.shape.width, one.shape.body, 4 * LENGTH)
        for one in size.adapted
    }
    models["Mistral-7B"] = (32_000, 50_000, 4096, 6_979_321_856, 32 * 512)
    rows: list[list[Cell]] = []
    for model, (source, target, width, body, step) in models.items():
        sizes = AdapterSizes(target, source, width, body, mean * target, mean * target, step)
        plain = plain_cost(sizes)
        for name, cost in (("embeddings+head", plain), ("sparse", sparse_cost(sizes)), ("dense", dense_cost(sizes))):
            figures = [part / GIGA for part in (cost.forward, cost.backward, cost.total)]
            rows.append([f"{model}: {name}", *figures, cost.total / plain.total])
    return table("GFLOP a token, as counted", ("", "forward", "backward", "both", "to the first"), rows)


def _request(inputs: dict[str, Path], size: Size, **values: Any) -> Request:
    phase = {
        "name": "benchmark", "steps": size.steps, "sequence_length": LENGTH, "learning_rate": 1e-3,
        "schedule": "linear", "warmup_steps": 0, "weight_decay": 0.1, "log_every": 1, "checkpoint_every": 10_000,
        "threads": size.threads, "device": "cpu", **values,
    }  # fmt: skip
    return Request(phase, {name: str(folder) for name, folder in inputs.items()})


def _table(title: str, found: dict[str, Runs]) -> Table:
    first = next(iter(found.values()))
    rows: list[list[Cell]] = [
        [
            name, runs.median("step_seconds"), runs.median("step_processor_seconds"), runs.median("tokens_per_second"),
            median_ratio(runs, first, "tokens_per_second"), f"{runs.median('padding'):.1%}",
            runs.peak_bytes / MIB, runs.peak_bytes / first.peak_bytes, runs.runs[0].figures.losses[-1],
        ]
        for name, runs in found.items()
    ]  # fmt: skip
    columns = (
        "",
        "step, s",
        "CPU s",
        "tokens/s",
        "to the first",
        "padding",
        "peak MiB",
        "to the first",
        "last loss",
    )
    return table(title, columns, rows)


def _figures(found: dict[str, Runs], **about: Any) -> list[dict[str, Any]]:
    return [{**about, "way": name, "rounds": runs.as_json(), "not_counted": WARM_UP} for name, runs in found.items()]


def _disturbed(found: dict[str, Runs]) -> bool:
    return any(runs.disturbed for runs in found.values())
