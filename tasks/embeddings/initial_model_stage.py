"""Stage `initial-model`: the source model with the new vocabulary, before any training."""

import json
import shutil
from pathlib import Path
from time import perf_counter

from configs.schema import InitialModelConfig
from tasks.contract import InputError, Stage, StageContext, StageResult


def run(context: StageContext) -> StageResult:
    """Apply the mapping to the source model; writes a model folder that the Auto classes load.

    Raises:
        InputError: a source model that cannot be read or does not belong to the mapping.
    """
    from tasks.embeddings.initial_model import load_source_model, replace_vocabulary, set_special_tokens
    from tasks.embeddings.mapping_files import read_mapping
    from tasks.tokenizer.load import TOKENIZER_FILES, load_tokenizer

    config: InitialModelConfig = context.config
    clock = [perf_counter()]
    context.progress(0, 3, "steps", "loading the source model")
    mapping, seed = read_mapping(context.inputs["mapping"])
    tokenizer = load_tokenizer(context.inputs["tokenizer"], "target tokenizer")
    if (size := max(tokenizer.get_vocab().values()) + 1) != mapping.target_size:
        raise InputError(f"initial-model: the mapping has {mapping.target_size} rows, the tokenizer {size} tokens")
    model = load_source_model(context.inputs["source_model"], config.dtype)
    clock.append(perf_counter())

    context.progress(1, 3, "steps", "applying the mapping")
    tables = replace_vocabulary(model, mapping, seed)
    set_special_tokens(model, tokenizer)
    clock.append(perf_counter())

    context.progress(2, 3, "steps", "saving")
    model.save_pretrained(str(context.out), safe_serialization=True)
    _tidy_config(context.out / "config.json")
    for name in TOKENIZER_FILES:
        if (path := context.inputs["tokenizer"] / name).is_file():
            shutil.copyfile(path, context.out / name)
    clock.append(perf_counter())
    return StageResult(
        summary={
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "vocab_size": mapping.target_size,
            "dtype": str(model.dtype).removeprefix("torch."),
            "tables": tables,
        },
        measurements=[
            {"step": step, "seconds": end - start, "rows": mapping.target_size}
            for step, start, end in zip(("load", "apply", "save"), clock[:-1], clock[1:], strict=True)
        ],
    )


def _tidy_config(path: Path) -> None:
    """Remove the path of the source model, which is another on every machine."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("_name_or_path", None)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


STAGE = Stage(name="initial-model", version=1, config=InitialModelConfig, run=run, isolated=True)
