"""Checking all configuration files at once."""

import itertools
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from configs.load import ConfigError, Kind, available, compose, load_language, load_recipe
from configs.schema import FileSource


def validate_all(data_root: Path) -> dict[str, Any]:
    """Read every YAML and compose every language x model x recipe.

    A recipe that reads parallel text is not combined with a language that has none.

    Args:
        data_root: folder in which local sources are looked for; a missing one is a note, not a fault.

    Returns:
        files and combinations (numbers), faults and notes (lists of texts).
    """
    kinds = {kind: available(kind) for kind in get_args(Kind)}
    faults: dict[str, None] = {}
    without, reading = languages_without_bitext(), recipes_of_bitext()
    combinations = [
        (language, model, recipe)
        for language, model, recipe in itertools.product(*kinds.values())
        if not (language in without and recipe in reading)
    ]
    for language, model, recipe in combinations:
        try:
            compose(language, model, recipe)
        except ConfigError as error:
            faults.setdefault(str(error))
    notes = [f"language {name} has no bitext: only recipes that read none are for it" for name in sorted(without)]
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


def languages_without_bitext() -> set[str]:
    """The languages that have no parallel text; those that cannot be read are not among them."""
    found = set()
    for name in available("languages"):
        with suppress(ConfigError):
            if load_language(name).bitext is None:
                found.add(name)
    return found


def recipes_of_bitext() -> set[str]:
    """The recipes whose initialiser reads parallel text, or what is counted on it."""
    found = set()
    for name in available("recipes"):
        with suppress(ConfigError):
            if not {"bitext", "alignment", "counts"}.isdisjoint(load_recipe(name).mapping.needs()):
                found.add(name)
    return found
