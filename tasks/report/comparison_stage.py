"""Stage `comparison`: initialisers beside each other."""

from pathlib import Path
from typing import Any

from configs.schema import ComparisonConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write comparison.parquet, similarity.parquet, report.json and report.html.

    Reads: tokenizer (the new one); of each initialiser mapping.<name>, model.<name> and evaluation.<name>;
    evaluation.source. What is missing is left out.
    """
    import pyarrow as pa

    from storage.tables import write_table
    from tasks.report.comparison import SCHEMA, collect, comparison_html, rows_of
    from tasks.report.data import dumps

    config: ComparisonConfig = context.config
    rows = rows_of(config, context.inputs)
    write_table(pa.Table.from_pylist(rows, SCHEMA), context.out / "comparison.parquet")
    similarity = _similarities(config, context)
    schema = pa.schema(
        [
            ("first", pa.string()),
            ("second", pa.string()),
            ("similarity", pa.float64()),
            ("deviation", pa.float64()),
            ("tokens", pa.int64()),
            ("anchors", pa.int64()),
        ]
    )
    write_table(pa.Table.from_pylist(similarity, schema), context.out / "similarity.parquet")
    data = collect(config, context.inputs, similarity)
    (context.out / "report.json").write_text(dumps(data), encoding="utf-8")
    (context.out / "report.html").write_text(comparison_html(data, None), encoding="utf-8")
    return StageResult(
        summary={f"bits_per_byte_{row['initialiser']}": row["bits_per_byte"] for row in rows if not row["skipped"]}
    )


def _similarities(config: ComparisonConfig, context: StageContext) -> list[dict[str, Any]]:
    """The similarity of the input embeddings of each two initial models; two tables are held at a time."""
    from tasks.embeddings.canonical import vocabulary_of
    from tasks.embeddings.look import side_similarity, similarity_row
    from tasks.embeddings.stored_model import open_model
    from tasks.pretrained import load_tokenizer

    folders: dict[str, Path] = {
        name: context.inputs[f"model.{name}"] for name in config.initialisers if f"model.{name}" in context.inputs
    }
    if "tokenizer" not in context.inputs or len(folders) < 2:
        return []
    vocabulary = vocabulary_of(load_tokenizer(context.inputs["tokenizer"], "target tokenizer"))
    rows: list[dict[str, Any]] = []
    names, total = list(folders), len(folders) * (len(folders) - 1) // 2
    for number, first in enumerate(names[:-1]):
        held = open_model(folders[first], f"initial model of {first}").tables.input.read()
        for second in names[number + 1 :]:
            context.progress(len(rows), total, "pairs", f"{first} and {second}")
            other = open_model(folders[second], f"initial model of {second}").tables.input.read()
            found = side_similarity(vocabulary, vocabulary, (held, other), config.embeddings)
            rows.append({"first": first, "second": second, **similarity_row(found)})
    return rows


STAGE = Stage(name="comparison", version=1, config=ComparisonConfig, run=run, isolated=True)
