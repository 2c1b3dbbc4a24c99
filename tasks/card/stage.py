"""Stage `card`: README.md of the final model."""

from configs.schema import CardConfig
from tasks.contract import Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Write README.md, the model card, from the artifacts in `inputs` and what their manifests say of them."""
    from tasks.card.facts import collect
    from tasks.card.render import card_text

    config: CardConfig = context.config
    facts = collect(config, context.inputs)
    (context.out / "README.md").write_text(card_text(facts), encoding="utf-8")
    own = {row["metric"]: row["value"] for row in facts.results if row["node"] == config.evaluated}
    return StageResult(summary=own)


STAGE = Stage(name="card", version=2, config=CardConfig, run=run)
