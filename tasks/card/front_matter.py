"""The head of a model card, which the Hugging Face hub reads: language, licence, base model, data sets, scores."""

from huggingface_hub import EvalResult, ModelCardData

from tasks.card.facts import CardFacts
from tasks.report.data import Row
from tasks.report.display import label

PIPELINE = "text-generation"
DIGITS = 6


def front_matter(facts: CardFacts) -> str:
    """The YAML between the two lines of dashes; what is not known is left out."""
    config = facts.config
    scores = _scores(facts)
    method = facts.mapping["method"] if facts.mapping else None
    data = ModelCardData(
        language=config.language.partition("-")[0],
        license=config.source.license,
        base_model=config.source.repository,
        datasets=sorted({source.dataset for source in config.sources if source.dataset}) or None,
        tags=[tag for tag in dict.fromkeys(("langadapt", method, config.recipe)) if tag],
        pipeline_tag=PIPELINE,
        library_name="transformers",
        model_name=config.name if scores else None,
        eval_results=scores or None,
    )
    return str(data.to_yaml())


def _scores(facts: CardFacts) -> list[EvalResult]:
    """The model's own scores on the held-out text; those of other models are in the card's table alone."""
    measured = facts.measured
    if measured is None:
        return []
    kind, name = _measured_text(facts, measured["split"])
    return [
        EvalResult(
            task_type=PIPELINE,
            dataset_type=kind,
            dataset_name=name,
            dataset_split=measured["split"],
            metric_type=row["metric"],
            metric_name=f"{label(row['metric'])} ({row['unit']})",
            metric_value=float(f"{row['value']:.{DIGITS}g}"),
        )
        for row in facts.results
        if row["node"] == facts.config.evaluated and row["value"] is not None
    ]


def _measured_text(facts: CardFacts, split: str) -> tuple[str, str]:
    """Id and name of the text that the models were measured on."""
    found: list[Row] = [row["source"] for row in facts.sources if row["source"]["corpus"] == "corpus" and row[split]]
    names = ", ".join(source["name"] for source in found) or facts.config.language
    alone = found[0]["dataset"] if len(found) == 1 else None
    return alone or names, names
