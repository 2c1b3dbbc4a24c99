"""A run's artifacts, made up: small, but with every file that a report reads."""

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from configs.schema import ReportConfig, ReportNode

NODES = (
    ("sample", "sample", "sample en-eo"),
    ("source.corpus", "corpus", "corpus en"),
    ("source.tokenizer", "tokenizer", "tokenizer en"),
    ("source.pretraining", "pretraining", "pretrain tiny-english"),
    ("corpus", "corpus", "corpus eo"),
    ("bitext", "bitext", "bitext en-eo"),
    ("tokenizer", "tokenizer", "tokenizer eo"),
    ("fertility", "fertility", "fertility eo"),
    ("alignment", "alignment", "align en-eo"),
    ("counts", "counts", "counts en-eo"),
    ("mapping", "mapping", "mapping en-eo"),
    ("initial-model", "initial-model", "initial model eo"),
    ("embeddings", "embeddings", "embeddings eo"),
    ("training.1", "training", "train eo 1 embeddings"),
    ("training.2", "training", "train eo 2 outer-layers"),
    ("evaluation.source", "evaluation", "evaluate eo source"),
    ("evaluation.initial", "evaluation", "evaluate eo initial"),
    ("evaluation.1", "evaluation", "evaluate eo 1"),
    ("evaluation.2", "evaluation", "evaluate eo 2"),
)
ENGLISH = [
    "The old teacher reads a long letter in the garden.",
    "Three small children saw the white horse near the river.",
    "Does the doctor who lives in the city know my sister?",
]
ESPERANTO = [
    "La maljuna instruisto legas longan leteron en la ĝardeno.",
    "Tri malgrandaj infanoj vidis la blankan ĉevalon apud la rivero.",
    "Ĉu la kuracisto, kiu loĝas en la urbo, konas mian fratinon?",
]
BITS = {"source": 4.83, "initial": 2.51, "1": 1.97, "2": 1.8125}
NASTY = ["<script>alert(1)</script>", "a\u202eb", "\x07", "سلام", "\u200d"]


def write(folder: Path, name: str, rows: list[dict], schema: pa.Schema | None = None) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / name)


def corpus(folder: Path, columns: dict[str, list[str]]) -> None:
    for split in ("train", "validation", "test"):
        count = len(next(iter(columns.values())))
        pq.write_table(pa.table({**columns, "corpus": ["stories"] * count}), folder / f"{split}.parquet")
    reasons = [("too_short", 12, 40), ("duplicate", 1234, 65000), ("control_characters", 0, 0)]
    write(
        folder,
        "rejections.parquet",
        [{"corpus": "stories", "reason": reason, "count": n, "bytes": size} for reason, n, size in reasons],
    )
    examples = [("too_short", 7, "<b>Ha!</b>"), ("duplicate", 15, ESPERANTO[0]), ("duplicate", 19, "x\x00y")]
    write(
        folder,
        "rejection_examples.parquet",
        [{"corpus": "stories", "reason": reason, "line": n, "example": text} for reason, n, text in examples],
    )


def tokenizer(folder: Path, texts: list[str], byte_level: bool, size: int) -> None:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else pre_tokenizers.Metaspace()
    made.decoder = decoders.ByteLevel() if byte_level else decoders.Metaspace()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    made.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=alphabet)
    )
    made.save(str(folder / "tokenizer.json"))


def fertility(folder: Path) -> None:
    common = {"sentences": 300, "words": 2000, "characters": 12000, "bytes": 12500}
    write(
        folder,
        "fertility.parquet",
        [
            {"tokenizer": "target", **common, "tokens": 3000, "tokens_per_word": 1.5, "tokens_per_byte": 0.24,
             "continued_word_share": 0.31},
            {"tokenizer": "source", **common, "tokens": 6860, "tokens_per_word": 3.43, "tokens_per_byte": 0.5488,
             "continued_word_share": 0.89},
        ],
    )  # fmt: skip


def alignment(folder: Path) -> None:
    rows = [
        {"direction": direction, "iteration": n, "log_likelihood": -1000.0 / n, "perplexity": 90.0 / n + shift,
         "tension": 4.0 + n, "p_null": 0.08}
        for shift, direction in enumerate(("forward", "reverse")) for n in range(1, 6)
    ]  # fmt: skip
    write(folder, "iterations.parquet", rows)
    write(folder, "source_units.parquet", [{"unit_id": n} for n in range(40)])
    write(folder, "word_pairs.parquet", [{"count": 1.0}] * 1500)


def mapping(folder: Path) -> None:
    names = ["▁instru", "▁infanoj", "▁ĝardeno", "▁ĉevalon", "▁la", *NASTY]
    origins = ["aligned"] * 5 + ["identical", "smoothed", "fallback-parts", "fallback-parts", "special"]
    rows, weights = [], []
    for n, (name, origin) in enumerate(zip(names, origins, strict=True)):
        sources = 3 if origin == "aligned" else 0 if origin == "special" else 1
        entropy = 0.8979457 if sources == 3 else 0.0
        rows.append({"target_id": n, "token": f"own {n}", "text": name, "origin": origin,
                     "frequency": 1000 - 90 * n, "sources": sources,
                     "entropy": entropy, "top_source": f"▁top{n}" if sources else "", "top_weight": 0.6})  # fmt: skip
        weights += [{"target_id": n, "source_id": 30 + n + k, "weight": (0.6, 0.3, 0.1)[k]} for k in range(sources)]
    ids = [("target_id", pa.int32())]
    schema = pa.schema([*ids, ("token", pa.string()), ("text", pa.string()), ("origin", pa.string()),
                        ("frequency", pa.int64()), ("sources", pa.int32()), ("entropy", pa.float64()),
                        ("top_source", pa.string()),
                        ("top_weight", pa.float64())])  # fmt: skip
    write(folder, "tokens.parquet", rows, schema)
    write(folder, "mapping.parquet", weights,
          pa.schema([*ids, ("source_id", pa.int32()), ("weight", pa.float64())]))  # fmt: skip
    used = sorted({row["source_id"] for row in weights})
    write(folder, "source_tokens.parquet", [{"source_id": n, "token": f"s{n}", "text": f"▁src{n}"} for n in used])


WARNED = "logits of new tokens"


def initial_model(folder: Path) -> None:
    lengths = {name: value for value, name in enumerate(("0", "0.01", "0.25", "0.5", "0.75", "0.99", "1"), start=1)}
    checks = [
        {"name": "row lengths of the LM head", "status": "passed", "message": "", "rows": [],
         "figures": {"source": lengths, "new": {name: value / 8 for name, value in lengths.items()}}},
        {"name": "fertility", "status": "passed", "message": "", "rows": [],
         "figures": {"before": {"tokens_per_word": 3.43}, "after": {"tokens_per_word": 1.5}}},
        {"name": "round trip", "status": "skipped", "message": "no held-out text", "rows": [], "figures": {}},
        {"name": "zero rows of the LM head", "status": "warning", "message": "2 rows are <zero>", "rows": [3, 4],
         "figures": {"rows": 2}},
        {"name": WARNED, "status": "warning", "figures": {}},
    ]  # fmt: skip
    (folder / "verification.json").write_text(json.dumps({"checks": checks}))


def embeddings(folder: Path) -> None:
    write(folder, "similarity.parquet",
          [{"table": table, "reference": "source", "similarity": 0.91, "deviation": 0.05, "tokens": 60, "anchors": 30}
           for table in ("input", "head")])  # fmt: skip
    write(folder, "neighbours.parquet",
          [{"table": table, "target_id": n, "token": f"▁nova{n}", "origin": "aligned", "frequency": 99 - n,
            "rank": rank, "source_id": rank, "source_token": NASTY[rank - 1], "cosine": 0.9 - 0.1 * rank}
           for table in ("input", "head") for n in range(3) for rank in (1, 2)])  # fmt: skip
    origins = ["aligned", "identical", "smoothed", "special", "fallback-parts", "fallback-mean", "merged"]
    write(folder, "projection.parquet",
          [{"side": "source" if n < 9 else "target", "token_id": n, "token": NASTY[n % len(NASTY)],
            "origin": None if n < 9 else origins[n % 7], "frequency": None if n < 9 else 100 - n % 7,
            "x": math.cos(n), "y": math.sin(3 * n)} for n in range(40)])  # fmt: skip


def losses(folder: Path, start: float, end: float, steps: int) -> None:
    rows = [
        {"step": n, "tokens": n * 512, "loss": end + (start - end) * math.exp(-n / 60) + 0.15 * math.sin(n * n),
         "learning_rate": 1e-3, "gradient_norm": 1.0}
        for n in range(1, steps + 1)
    ]  # fmt: skip
    write(folder, "losses.parquet", rows)


def scores(folder: Path, values: list[float]) -> None:
    rows = [{"step": 100 * n, "tokens": 51200 * n, "bits_per_byte": value} for n, value in enumerate(values)]
    write(folder, "validation.parquet", rows)


def metrics(folder: Path, which: str) -> None:
    values = {
        "bits_per_byte": (BITS[which], "bits/byte"),
        "bits_per_character": (BITS[which] * 1.04, "bits/character"),
        "perplexity_per_native_token": (2 ** (BITS[which] * 4), "perplexity"),
        "perplexity_per_token": (2 ** (BITS[which] * 3), "perplexity"),
        "tokens_per_word": (3.43 if which == "source" else 1.5, "tokens/word"),
        "nll": (41234.5 * BITS[which], "nats"),
        "words": (6500.0, "words"),
    }
    rows = [
        {"metric": name, "value": value, "unit": unit, "split": "test", "sentences": 300}
        for name, (value, unit) in sorted(values.items())
    ]
    write(folder, "metrics.parquet", rows)


def manifest(folder: Path, node: str, stage: str, number: int) -> None:
    config: dict = {"seed": number}
    summary: dict = {"note": "x < y & z"}
    if stage == "training":
        summary |= {"peak_memory_bytes": 300 * 1024**2}
        if node.endswith("2"):
            shares = (("target", 0.75, 0.7503, 150_060, 1.25), (NASTY[1], 0.25, 0.2497, 49_940, 0.5))
            names = ("name", "wanted", "share", "tokens", "passes")
            summary["texts"] = {values[0]: dict(zip(names, values, strict=True)) for values in shares}
        config |= {"name": "embeddings" if node.endswith("1") else "outer-layers", "trainable": "embeddings+head"}
    if stage == "initial-model":
        summary["verification"] = {"warnings": {WARNED: f"mean 9 (rows 7 {NASTY[1]!r})"},
                                   "measured": {WARNED: {"mean": 9.25, "text": NASTY[0]}}}  # fmt: skip
    if stage == "evaluation":
        summary |= {"generation_bytes_per_second": 200.0 + number, "generation_tokens_per_second": 55.0}
    (folder / "manifest.json").write_text(
        json.dumps(
            {
                "stage": stage, "key": f"{number:064x}"[::-1], "digest": "d" * 64, "config": config,
                "summary": summary, "seconds": 0.4 * 2.1**number % 4000, "started_at": "2030-01-01T00:00:00+00:00",
                "host": "box", "bytes": 1000 * 3**number % 10**9, "libraries": {"torch": "2.13.0", "numpy": "1.26.4"},
            }
        )
    )  # fmt: skip


def fabricate(root: Path, with_manifests: bool = True) -> dict[str, Path]:
    """The folders of all nodes."""
    inputs = {}
    for number, (node, stage, _) in enumerate(NODES):
        folder = root / node
        folder.mkdir(parents=True)
        inputs[node] = folder
        if with_manifests:
            manifest(folder, node, stage, number)
    corpus(inputs["source.corpus"], {"text": ENGLISH})
    corpus(inputs["corpus"], {"text": ESPERANTO})
    corpus(inputs["bitext"], {"source": ENGLISH, "target": ESPERANTO})
    tokenizer(inputs["source.tokenizer"], ENGLISH, byte_level=True, size=330)
    tokenizer(inputs["tokenizer"], ESPERANTO, byte_level=False, size=90)
    fertility(inputs["fertility"])
    alignment(inputs["alignment"])
    write(inputs["counts"], "token_pairs.parquet", [{"count": 2.0}] * 700)
    mapping(inputs["mapping"])
    initial_model(inputs["initial-model"])
    embeddings(inputs["embeddings"])
    losses(inputs["source.pretraining"], 7.0, 3.1, 250)
    losses(inputs["training.1"], 5.5, 3.6, 450)
    losses(inputs["training.2"], 3.6, 3.2, 300)
    scores(inputs["training.2"], [2.5, 1.75, 1.9])
    for which in BITS:
        metrics(inputs[f"evaluation.{which}"], which)
    return inputs


@pytest.fixture
def report_config() -> ReportConfig:
    return ReportConfig(
        title="Esperanto from tiny-english by trans-tokenization",
        language="eo",
        language_name="Esperanto",
        model="tiny-english",
        recipe="trans-tokenization",
        paper="a paper <2024>",
        nodes=tuple(ReportNode(node=node, stage=stage, label=label) for node, stage, label in NODES),
    )


@pytest.fixture
def artifacts(tmp_path: Path) -> dict[str, Path]:
    return fabricate(tmp_path / "artifacts")


@pytest.fixture
def measurements(tmp_path: Path) -> dict[str, Path]:
    """What was measured in two trainings."""
    found = {}
    for node in ("training.1", "training.2"):
        found[node] = tmp_path / f"{node}.parquet"
        rows = [{"step": n, "seconds": 0.1 * n, "tokens_per_second": 1000.0 + n, "padding_share": 0.0,
                 "peak_memory_bytes": n * 2**20} for n in (100, 200, 300)]  # fmt: skip
        write(tmp_path, found[node].name, rows)
    return found


@pytest.fixture
def bare_artifacts(tmp_path: Path) -> dict[str, Path]:
    return fabricate(tmp_path / "bare", with_manifests=False)
