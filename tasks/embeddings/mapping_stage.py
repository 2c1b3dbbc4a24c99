"""Stage `mapping`: each token of the new vocabulary as a weighted mean of old tokens."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from configs.schema import MappingConfig
from tasks.contract import InputError, Stage, StageContext, StageResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tasks.embeddings.registry import TokenPairs
    from tasks.embeddings.token_mapping import TokenMapping


def run(context: StageContext) -> StageResult:
    """Build the mapping with the configured initialiser; writes mapping.parquet, tokens.parquet and mapping.json.

    Raises:
        InputError: a folder has no tokenizer, counts are missing, or they belong to other tokenizers.
    """
    from tasks.embeddings.canonical import vocabulary_of
    from tasks.embeddings.mapping_files import write_mapping
    from tasks.embeddings.registry import Ingredients, load_initialiser
    from tasks.embeddings.source_pieces import SourcePieces
    from tasks.tokenizer.load import load_tokenizer

    config: MappingConfig = context.config
    method = load_initialiser(config.method)
    clock = [perf_counter()]
    context.progress(0, 3, "steps", "reading the vocabularies")
    target = vocabulary_of(load_tokenizer(context.inputs["tokenizer"], "target tokenizer"))
    source_tokenizer = load_tokenizer(context.inputs["source_tokenizer"], "source tokenizer")
    source = vocabulary_of(source_tokenizer)
    if not len(target) or not len(source):
        raise InputError(f"mapping: a tokenizer has no tokens (target {len(target)}, source {len(source)})")
    clock.append(perf_counter())

    context.progress(1, 3, "steps", config.method)
    pairs = None
    if "counts" in method.needs:
        if "counts" not in context.inputs:
            raise InputError(f"mapping: the initialiser {config.method!r} needs counts of aligned tokens; add a bitext")
        pairs = _token_pairs(context.inputs["counts"] / "token_pairs.parquet", len(target), len(source))
    mapping = method.build(Ingredients(target, source, SourcePieces(source_tokenizer, source), config, pairs))
    clock.append(perf_counter())

    context.progress(2, 3, "steps", "writing")
    frequency = _frequencies(context.inputs["tokenizer"] / "frequencies.parquet", len(target))
    write_mapping(context.out, mapping, target, source, frequency, config.seed)
    clock.append(perf_counter())
    return StageResult(
        summary=summary_of(mapping, frequency),
        measurements=[
            {"step": step, "seconds": end - start, "tokens": len(target)}
            for step, start, end in zip(("vocabularies", "build", "write"), clock[:-1], clock[1:], strict=True)
        ],
    )


def summary_of(mapping: "TokenMapping", frequency: "NDArray[np.int64]") -> dict[str, Any]:
    """Rows and share of token frequency by origin, uncovered rows, and the mean entropy (nats) weighted by frequency.

    Where no frequency is known, each token counts once.
    """
    import numpy as np

    weight = frequency if frequency.sum() else np.ones_like(frequency)
    names = mapping.origin_names
    rows = np.bincount(mapping.origin, minlength=len(names))
    shares = np.bincount(mapping.origin, weights=weight, minlength=len(names)) / weight.sum()
    return {
        "target_size": mapping.target_size,
        "source_size": mapping.source_size,
        "entries": len(mapping.weights),
        "uncovered_rows": int((~mapping.covered()).sum()),
        "rows": {name: int(count) for name, count in zip(names, rows, strict=True)},
        "frequency_share": {name: float(share) for name, share in zip(names, shares, strict=True)},
        "mean_entropy": float((mapping.entropy() * weight).sum() / weight.sum()),
    }


def _token_pairs(path: Path, target_size: int, source_size: int) -> "TokenPairs":
    """The counted token pairs, checked against the vocabularies."""
    import numpy as np
    import pyarrow.parquet as pq

    from tasks.embeddings.registry import TokenPairs

    table = pq.read_table(path, columns=["source_id", "target_id", "count"])
    pairs = TokenPairs(
        target_ids=table["target_id"].to_numpy().astype(np.int64),
        source_ids=table["source_id"].to_numpy().astype(np.int64),
        counts=table["count"].to_numpy().astype(np.float64),
    )
    for side, ids, size in (("target", pairs.target_ids, target_size), ("source", pairs.source_ids, source_size)):
        if len(ids) and not 0 <= ids.min() <= ids.max() < size:
            raise InputError(
                f"mapping: the counts hold {side} token {ids.max()}, the {side} tokenizer has {size} tokens; "
                "they were counted with another tokenizer: count again"
            )
    if not np.all(np.isfinite(pairs.counts)) or np.any(pairs.counts < 0):
        raise InputError(f"mapping: counts in {path.name} must be finite and not negative")
    return pairs


def _frequencies(path: Path, size: int) -> "NDArray[np.int64]":
    """Occurrences of each target token, 0 where the tokenizer came without counts."""
    import numpy as np
    import pyarrow.parquet as pq

    frequency = np.zeros(size, dtype=np.int64)
    if path.is_file():
        table = pq.read_table(path)
        frequency[table["token_id"].to_numpy()] = table["count"].to_numpy()
    return frequency


STAGE = Stage(name="mapping", version=1, config=MappingConfig, run=run)
