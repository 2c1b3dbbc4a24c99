"""Checking all configuration files at once."""

import itertools
from pathlib import Path
from typing import Any, get_args

from configs.load import ConfigError, Kind, available, compose, load_language
from configs.schema import FileSource


def validate_all(data_root: Path) -> dict[str, Any]:
    """Read every YAML and compose every language x model x recipe.

    Args:
        data_root: folder in which local sources are looked for; a missing one is a note, not a fault.

    Returns:
        files and combinations (numbers), faults and notes (lists of texts).
    """
    kinds = {kind: available(kind) for kind in get_args(Kind)}
    faults: dict[str, None] = {}
    combinations = list(itertools.product(*kinds.values()))
    for language, model, recipe in combinations:
        try:
            compose(language, model, recipe)
        except ConfigError as error:
            faults.setdefault(str(error))
    notes: list[str] = []
    for name in kinds["languages"]:
        try:
            language_config = load_language(name)
        except ConfigError:
            continue
        bitext = () if language_config.bitext is None else language_config.bitext.sources
        files = [item for item in (*language_config.corpus.sources, *bitext) if isinstance(item, FileSource)]
        notes += [
            f"language {name}: source {source.name}: no file {data_root / source.path}"
            for source in files
            if not (data_root / source.path).is_file()
        ]
    return {
        "files": sum(len(files) for files in kinds.values()),
        "combinations": len(combinations),
        "faults": list(faults),
        "notes": list(dict.fromkeys(notes)),
    }
