"""A model card's facts as the text of README.md."""

import json
from importlib.resources import files
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from tasks.card.facts import CardFacts
from tasks.card.front_matter import front_matter
from tasks.report import display
from tasks.report.markdown import escape
from tasks.report.tables import results_table


def card_text(facts: CardFacts) -> str:
    """The model card: the head for the Hugging Face hub, then Markdown for people. The same text for the same facts."""
    template = _environment().from_string((files("tasks.card") / "card.md").read_text(encoding="utf-8"))
    unlicensed = sorted({row["source"]["name"] for row in facts.sources if row["source"]["license"] is None})
    return template.render(
        facts=facts,
        config=facts.config,
        head=front_matter(facts),
        built=any(source.corpus == "source.corpus" for source in facts.config.sources),
        unlicensed=unlicensed,
        results=results_table(facts.results),
    )


def _environment() -> Environment:
    made = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    for name in ("number", "count", "percent", "label"):
        made.filters[name] = getattr(display, name)
    made.filters["escape"] = escape
    made.filters["as_yaml"] = _as_yaml
    return made


def _as_yaml(values: Any) -> str:
    """Values as YAML lines, without those that are not set."""
    plain = json.loads(json.dumps(values))
    return yaml.safe_dump({name: value for name, value in plain.items() if value is not None}, sort_keys=True).strip()
