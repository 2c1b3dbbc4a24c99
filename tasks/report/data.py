"""The figures of a report, as plain JSON types: what report.json holds and what the pages are rendered from."""

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class ReportData:
    """Everything a report shows. A part whose nodes the run does not have is empty or None.

    Attributes:
        title: heading.
        language: BCP 47 code of the target language.
        language_name: its English name.
        model: name of the source model.
        recipe: name of the recipe.
        paper: where the recipe's values come from.
        headline: label, unit, better ('lower', 'higher' or None) and values [{name, value}], the figures to read first.
        results: node, model, metric, value, unit, better: the table of results, one row a value.
        totals: node, model, metric, value, unit: sizes of what was measured.
        corpora: node, label, stage, kept [{corpus, split, texts, bytes}], rejections [{corpus, reason, count, bytes,
            examples [{line, example}]}].
        fertility: the rows of fertility.parquet.
        segmentation: text, source and target (lists of the tokens' text, or None).
        alignment: iterations (rows of iterations.parquet) and sizes [{name, count}].
        mapping: size, coverage, bands [{tokens, text_share, covered, origins [{origin, share}]}], origins
            [{origin, rows, share, frequency_share, entropy}], entropy [{low, high, rows, frequency_share}], examples
            [{origin, tokens [{token, frequency, entropy, sources [{token, weight}]}]}].
        verification: of the initial model: checks [{name, status, message, figures [{name, value}]}], counts (checks by
            status), lengths [{table, rows ('source', 'new'), values (quantiles of the rows' lengths)}].
        embeddings: similarity (rows of similarity.parquet), neighbours [{token, origin, frequency, sources
            [{token, cosine}]}], points (rows of projection.parquet), variance (share on each axis).
        losses: node, label, detail, steps, tokens, first, last, best ({step, bits_per_byte} or None),
            tokens_per_second and peak_memory_bytes (None where not measured), points [{step, tokens, loss,
            learning_rate, gradient_norm}], validation [{step, tokens, bits_per_byte}], speed [{step, tokens,
            tokens_per_second, peak_memory_bytes}].
        stages: node, stage, label, key, digest, seconds, bytes, memory_bytes, started_at, host, summary, config.
        libraries: version of each library, by name.
    """

    title: str
    language: str
    language_name: str = ""
    model: str = ""
    recipe: str = ""
    paper: str = ""
    headline: list[Row] = field(default_factory=list)
    results: list[Row] = field(default_factory=list)
    totals: list[Row] = field(default_factory=list)
    corpora: list[Row] = field(default_factory=list)
    fertility: list[Row] = field(default_factory=list)
    segmentation: list[Row] = field(default_factory=list)
    alignment: Row | None = None
    mapping: Row | None = None
    verification: Row | None = None
    embeddings: Row | None = None
    losses: list[Row] = field(default_factory=list)
    stages: list[Row] = field(default_factory=list)
    libraries: dict[str, str] = field(default_factory=dict)


def as_dict(data: ReportData | Row) -> Row:
    """The figures as one dict of JSON types; numbers that JSON has no word for (NaN, infinities) become None."""
    plain: Row = _finite(asdict(data) if isinstance(data, ReportData) else data)
    return plain


def from_dict(values: Row) -> ReportData:
    """The figures of a report.json that was read with `json.loads`."""
    return ReportData(**values)


def to_json(data: ReportData) -> str:
    """The text of report.json."""
    return dumps(as_dict(data))


def dumps(values: Row) -> str:
    """JSON types as the text of a file."""
    return json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
