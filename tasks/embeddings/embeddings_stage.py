"""Stage `embeddings`: the new embedding tables beside the old ones, as tables to look at."""

from typing import TYPE_CHECKING, Any

from configs.schema import EmbeddingsConfig
from tasks.contract import Stage, StageContext, StageResult

if TYPE_CHECKING:
    from tasks.embeddings.look import Sides


def run(context: StageContext) -> StageResult:
    """Compare the initial model's tables with the source model's.

    Reads: model (the initial model), source_model, tokenizer, source_tokenizer, mapping; helper (a model folder with
    its tokenizer) where there is one.

    Writes: similarity.parquet (table, reference, similarity, deviation, tokens, anchors), neighbours.parquet (table,
    target_id, token, origin, frequency, rank, source_id, source_token, cosine), projection.parquet (side, token_id,
    token, origin, frequency, x, y).

    Raises:
        InputError: a folder has no model or no tokenizer that can be read.
    """
    from storage.tables import write_table
    from tasks.embeddings.look import neighbour_rows, projection_rows, read_sides, similarity_rows

    config: EmbeddingsConfig = context.config
    context.progress(0, 4, "steps", "reading")
    sides: Sides = read_sides(context.inputs)
    context.progress(1, 4, "steps", "similarity")
    similarity = similarity_rows(sides, config)
    write_table(similarity, context.out / "similarity.parquet")
    context.progress(2, 4, "steps", "neighbours")
    write_table(neighbour_rows(sides, config), context.out / "neighbours.parquet")
    context.progress(3, 4, "steps", "projection")
    projection, shares = projection_rows(sides, config)
    write_table(projection, context.out / "projection.parquet")
    summary: dict[str, Any] = {
        f"similarity_{row['reference']}_{row['table']}": row["similarity"] for row in similarity.to_pylist()
    }
    return StageResult(summary=summary | {"projection_variance": [round(share, 4) for share in shares]})


STAGE = Stage(name="embeddings", version=1, config=EmbeddingsConfig, run=run, isolated=True)
