"""Stage `mapping`: each token of the new vocabulary as a weighted mean of old tokens, or as a row of numbers."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from configs.schema import MappingConfig
from tasks.contract import Stage, StageContext, StageResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tasks.embeddings.dense_rows import DenseRows
    from tasks.embeddings.token_mapping import TokenMapping


def run(context: StageContext) -> StageResult:
    """Build the mapping with the configured initialiser.

    Writes mapping.parquet, tokens.parquet, source_tokens.parquet and mapping.json; dense.safetensors where rows are
    given as numbers.

    Raises:
        InputError: a folder has no tokenizer, an input is missing, or inputs do not belong together.
    """
    from tasks.embeddings.dense_rows import DenseRows
    from tasks.embeddings.ingredients import load_ingredients
    from tasks.embeddings.mapping_files import write_mapping
    from tasks.embeddings.registry import load_initialiser

    config: MappingConfig = context.config
    method = load_initialiser(config.method)
    clock = [perf_counter()]
    context.progress(0, 3, "steps", "reading the vocabularies")
    given = load_ingredients(context)
    clock.append(perf_counter())

    context.progress(1, 3, "steps", config.method)
    built = method.build(given)
    clock.append(perf_counter())

    context.progress(2, 3, "steps", "writing")
    size = len(given.target)
    frequency = _frequencies(context.inputs["tokenizer"] / "frequencies.parquet", size)
    write_mapping(context.out, built, given.target, given.source, frequency, config.seed)
    clock.append(perf_counter())
    dense = built if isinstance(built, DenseRows) else None
    mapping = built.mapping if isinstance(built, DenseRows) else built
    return StageResult(
        summary=summary_of(mapping, frequency, dense),
        measurements=[
            {"step": step, "seconds": end - start, "tokens": size}
            for step, start, end in zip(("vocabularies", "build", "write"), clock[:-1], clock[1:], strict=True)
        ],
    )


def summary_of(
    mapping: "TokenMapping", frequency: "NDArray[np.int64]", dense: "DenseRows | None" = None
) -> dict[str, Any]:
    """Rows and share of token frequency by origin, uncovered rows, and the mean entropy (nats) weighted by frequency.

    Where no frequency is known, each token counts once. Rows given as numbers (`dense`) are counted as such.
    """
    import numpy as np

    weight = frequency if frequency.sum() else np.ones_like(frequency)
    names = mapping.origin_names
    rows = np.bincount(mapping.origin, minlength=len(names))
    shares = np.bincount(mapping.origin, weights=weight, minlength=len(names)) / weight.sum()
    numbers = 0 if dense is None else len(dense.rows)
    return {
        "target_size": mapping.target_size,
        "source_size": mapping.source_size,
        "entries": len(mapping.weights),
        "dense_rows": numbers,
        "uncovered_rows": int((~mapping.covered()).sum()) - numbers,
        "rows": {name: int(count) for name, count in zip(names, rows, strict=True)},
        "frequency_share": {name: float(share) for name, share in zip(names, shares, strict=True)},
        "mean_entropy": float((mapping.entropy() * weight).sum() / weight.sum()),
    }


def _frequencies(path: Path, size: int) -> "NDArray[np.int64]":
    """Occurrences of each target token, 0 where the tokenizer came without counts."""
    import numpy as np
    import pyarrow.parquet as pq

    frequency = np.zeros(size, dtype=np.int64)
    if path.is_file():
        table = pq.read_table(path)
        frequency[table["token_id"].to_numpy()] = table["count"].to_numpy()
    return frequency


STAGE = Stage(name="mapping", version=2, config=MappingConfig, run=run, isolated=True)
