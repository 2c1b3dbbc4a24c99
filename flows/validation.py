"""Checking all configuration files at once."""

import itertools
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from configs.faults import ConfigError
from configs.load import Kind, available, compose, load_language, load_recipe
from configs.schema import FileSource, LanguageConfig, MappingConfig


def validate_all(data_root: Path) -> dict[str, Any]:
    """Read every YAML and compose every language x model x recipe.

    A recipe is not combined with a language that lacks the parallel text that it reads.

    Args:
        data_root: folder in which local sources are looked for; a missing one is a note, not a fault.

    Returns:
        files and combinations (numbers), faults and notes (lists of texts).
    """
    kinds = {kind: available(kind) for kind in get_args(Kind)}
    faults: dict[str, None] = {}
    languages, initialisers = _readable_languages(kinds["languages"]), _initialisers(kinds["recipes"])
    combinations = [
        (language, model, recipe)
        for language, model, recipe in itertools.product(*kinds.values())
        if _has_text(languages.get(language), initialisers.get(recipe))
    ]
    for language, model, recipe in combinations:
        try:
            compose(language, model, recipe)
        except ConfigError as error:
            faults.setdefault(str(error))
    notes = [
        f"language {name} has no bitext: only recipes that read none are for it"
        for name, config in languages.items()
        if config.bitext is None
    ]
    for name, config in languages.items():
        bitexts = [item for bitext in config.bitexts.values() for item in bitext.sources]
        files = [item for item in (*config.corpus.sources, *bitexts) if isinstance(item, FileSource)]
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


def _readable_languages(names: Iterable[str]) -> dict[str, LanguageConfig]:
    """The languages that can be read, by name; the faults of the others show where they are composed."""
    found = {}
    for name in names:
        with suppress(ConfigError):
            found[name] = load_language(name)
    return found


def _initialisers(names: Iterable[str]) -> dict[str, MappingConfig]:
    """The initialisers of the recipes that can be read, by the recipe's name."""
    found = {}
    for name in names:
        with suppress(ConfigError):
            found[name] = load_recipe(name).mapping
    return found


def _has_text(language: LanguageConfig | None, mapping: MappingConfig | None) -> bool:
    """Whether the language has all parallel text that the initialiser reads; where one is not known, yes."""
    if language is None or mapping is None:
        return True
    return set(mapping.languages(language.source_language)) <= set(language.bitexts)
