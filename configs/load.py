"""YAML files into configuration models; every error names the file, the line and the key."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from configs.faults import ConfigError, describe_errors
from configs.overrides import merged, overridden, parse_override
from configs.schema import (
    CODE_PATTERN,
    BuiltModel,
    LanguageConfig,
    LocalModel,
    ModelConfig,
    OptimizationConfig,
    Recipe,
    RunConfig,
    TokenizerConfig,
    TrainingConfig,
    unused_settings,
    valid_code,
)
from configs.sections.optimization import BUDGETS

Kind = Literal["languages", "models", "recipes"]
PACKAGED = Path(__file__).parent
RECIPE_SECTIONS = (
    "tokenizer",
    "fertility",
    "alignment",
    "counts",
    "mapping",
    "initial_model",
    "embeddings",
    "training",
    "evaluation",
)


class _StrictLoader(yaml.SafeLoader):
    """Refuses duplicate keys, which plain YAML loaders take in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def config_directories() -> tuple[Path, ...]:
    """Folders searched for YAML files, first wins: LANGADAPT_CONFIG_DIR (separated by ':'), then the packaged ones."""
    own = [Path(part) for part in os.environ.get("LANGADAPT_CONFIG_DIR", "").split(os.pathsep) if part]
    for directory in own:
        if not directory.is_dir():
            raise ConfigError(f"LANGADAPT_CONFIG_DIR: there is no folder {directory}")
    return (*own, PACKAGED)


def available(kind: Kind) -> dict[str, Path]:
    """Name -> file of every YAML of a kind, sorted by name."""
    found: dict[str, Path] = {}
    for directory in config_directories():
        for path in sorted((directory / kind).glob("*.yaml")):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def load(path: Path, schema: Any) -> Any:
    """The YAML file `path` as an instance of `schema` (a model, or an annotated union of models).

    Raises:
        ConfigError: the file is missing, not YAML, or does not fit; every fault is listed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    return _parsed(path, text, schema)


@lru_cache(maxsize=256)  # `langadapt validate` composes every combination of the files
def _parsed(path: Path, text: str, schema: Any) -> Any:
    """The content of a YAML file as an instance of `schema`; shared by all who ask for it, so not to be changed."""
    try:
        data, node = yaml.load(text, Loader=_StrictLoader), yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise ConfigError(f"{where}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        found = "the file is empty" if data is None else f"got {type(data).__name__}"
        raise ConfigError(f"{path}: a mapping of keys to values is needed, {found}")
    try:
        return TypeAdapter(schema).validate_python(data)
    except ValidationError as error:
        raise ConfigError(describe_errors(error, schema, path, node)) from None


def _named(kind: Kind, name: str) -> Path:
    known = available(kind)
    if name in known:
        return known[name]
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ConfigError(f"no {kind[:-1]} named {name!r}{hint} Known: {', '.join(known)}")


def load_language(name: str) -> LanguageConfig:
    """The language `name`: a file in configs/languages, or a path ending in .yaml.

    Raises:
        ConfigError: it does not exist or does not fit.
    """
    if not name.endswith((".yaml", ".yml")) and not valid_code(name):
        raise ConfigError(f"language code {name!r} must match {CODE_PATTERN} (for instance 'sw' or 'zh-Hant')")
    path = _named("languages", name)
    language: LanguageConfig = load(path, LanguageConfig)
    if path.stem != language.code:
        raise ConfigError(
            f"{path}: the file is named {path.stem!r} and holds the code {language.code!r}; they must agree"
        )
    return language


def load_model(name: str) -> Any:
    """The source model `name`: a file in configs/models, a path ending in .yaml, or the folder of a local model.

    Raises:
        ConfigError: it does not exist or does not fit.
    """
    if name not in available("models") and (os.sep in name or name in (".", "..")) and not name.endswith(".yaml"):
        folder = Path(name)
        if not folder.is_dir():
            raise ConfigError(f"model folder {name!r} does not exist")
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-.")
        return LocalModel(name=plain or "model", path=str(folder.resolve()))
    return load(_named("models", name), ModelConfig)


def load_recipe(name: str) -> Recipe:
    """The recipe `name`: a file in configs/recipes, or a path ending in .yaml.

    Raises:
        ConfigError: it does not exist or does not fit.
    """
    recipe: Recipe = load(_named("recipes", name), Recipe)
    return recipe


def compose(language: str, model: str, recipe: str, overrides: Sequence[str] = ()) -> RunConfig:
    """The configuration of a run.

    Values are laid over each other in this order: recipe, the model's `overrides`, the language's `overrides`,
    `overrides`.

    Args:
        language: name of a language (see `load_language`).
        model: name of a source model (see `load_model`).
        recipe: name of a recipe (see `load_recipe`).
        overrides: 'key.subkey=value' texts; keys are those of `RunConfig`.

    Raises:
        ConfigError: one of the files or overrides does not fit; every fault is listed.
    """
    chosen, source, method = load_language(language), load_model(model), load_recipe(recipe)
    sections = {name: value for name, value in method.model_dump(mode="json").items() if name in RECIPE_SECTIONS}
    defaults = {name: RunConfig.model_fields[name].default for name in ("fertility", "initial_model", "embeddings")}
    sections |= {name: value.model_dump(mode="json") for name, value in defaults.items()}
    for where, changes in (
        (f"model {source.name!r}", source.overrides),
        (f"language {chosen.code!r}", chosen.overrides),
    ):
        unknown = sorted(set(changes) - set(sections))
        if unknown:
            raise ConfigError(f"{where}: overrides may change {', '.join(sorted(sections))}; not {', '.join(unknown)}")
        sections = merged(sections, changes, RunConfig)
    # A recipe names a whole group of languages and is run for any of them, whose own corpus is there already.
    group = [code for code in sections["tokenizer"].get("group", ()) if code != chosen.code]
    sections = merged(sections, {"tokenizer": {"group": group}})
    tree: dict[str, Any] = {
        "language": chosen.code,
        "language_name": chosen.name,
        "source_language": chosen.source_language,
        "recipe": method.name,
        "paper": method.paper,
        "model": source.model_dump(mode="json"),
        "corpus": chosen.corpus.model_dump(mode="json"),
        "bitext": None if chosen.bitext is None else chosen.bitext.model_dump(mode="json"),
        "further_bitexts": {code: item.model_dump(mode="json") for code, item in chosen.further_bitexts.items()},
        "helper": None if chosen.helper is None else chosen.helper.model_dump(mode="json"),
        **sections,
    }
    tree["training"] = _with_target(tree["training"], chosen.code)
    tree = _override(tree, [text for text in overrides if not _of_further_corpora(text)])
    tree["tokenizer"] = _without_unread(tree["tokenizer"], sections["tokenizer"], overrides)
    tree["group"] = _group_corpora(tree["tokenizer"], source)
    tree["mixed"] = _mixed_corpora(tree, source)
    tree = _override(tree, [text for text in overrides if _of_further_corpora(text)])
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(describe_errors(error, RunConfig, None, None)) from None


def _override(tree: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    _refuse_two_ways(overrides)
    for text in overrides:
        parts, _ = parse_override(text)
        if parts[0] in ("language", "language_name", "source_language", "recipe", "paper"):
            raise ConfigError(f"override {text!r}: choose {parts[0]!r} by its own argument")
        if parts[:2] == ("model", "overrides"):
            raise ConfigError(f"override {text!r}: override {'.'.join(parts[2:]) or 'the values'} itself")
        tree = overridden(tree, RunConfig, text)
        _refuse_hidden(tree, parts, text)
    return tree


def _refuse_two_ways(overrides: Sequence[str]) -> None:
    """Refuse overrides that say the same thing in two ways: the later would win over the earlier in silence."""
    said: dict[tuple[str, ...], tuple[tuple[str, ...], str]] = {}
    for text in overrides:
        parts, value = parse_override(text)
        for group in TrainingConfig.alternatives:
            if parts[-1] in group and value is not None:
                named, other = said.setdefault((*parts[:-1], *group), (parts, text))
                if named != parts:
                    raise ConfigError(f"overrides {other!r} and {text!r} say the same thing in two ways: give one")


def _of_further_corpora(text: str) -> bool:
    """Whether an override changes a corpus of a group or a mixture, which are known after all other overrides."""
    return parse_override(text)[0][0] in ("group", "mixed")


def _without_unread(tokenizer: Any, written: Mapping[str, Any], overrides: Sequence[str]) -> Any:
    """The section, with the defaults of settings that its strategy does not read, but for those an override names.

    A language says how large a vocabulary fits its text, whatever the strategy; that is no fault where the strategy
    trains none. (A recipe that sets what its own strategy does not read has been refused when it was loaded.)

    Args:
        tokenizer: the section.
        written: the section before the overrides.
        overrides: 'key.subkey=value' texts; a key named there is left as it is, for the error that it gives.
    """
    if not isinstance(tokenizer, dict):
        return tokenizer  # not what the schema wants; it will say so
    named = {parts[1] for parts, _ in map(parse_override, overrides) if parts[0] == "tokenizer" and len(parts) > 1}
    unread = unused_settings(str(tokenizer.get("strategy")), str(tokenizer.get("algorithm"))) - named
    defaults = {
        key: TokenizerConfig.model_fields[key].default
        for key in unread
        if key in written and tokenizer.get(key) == written[key]
    }
    return {**tokenizer, **defaults}


def _group_corpora(tokenizer: Any, model: Any) -> dict[str, Any]:
    """The corpus of each language of the tokenizer's group: of the source model where it is its own, else a file's.

    Raises:
        ConfigError: there is no such language.
    """
    codes = tokenizer.get("group") if isinstance(tokenizer, dict) else None
    if not isinstance(codes, list | tuple) or not all(isinstance(code, str) for code in codes):
        return {}  # not what the schema wants; it will say so
    return {code: _corpus(code, model) for code in codes}


def _with_target(training: Any, code: str) -> Any:
    """The section with 'target' for the run's own language, which a recipe for a whole group calls by its code."""
    if isinstance(training, Mapping):
        changed = {key: _with_target(value, code) for key, value in training.items() if key in ("phases", "mixture")}
        shares = {key: training[key] for key in ("shares", "fixed") if isinstance(training.get(key), Mapping)}
        renamed = {
            key: {"target" if name == code else name: share for name, share in value.items()}
            for key, value in shares.items()
        }
        return {**training, **changed, **renamed}
    return [_with_target(item, code) for item in training] if isinstance(training, list | tuple) else training


def _mixed_corpora(tree: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """The corpora that training mixtures name beside the target's and those of the tokenizer's group.

    Raises:
        ConfigError: there is no such language.
    """
    training = tree["training"]
    sections = [training, *(training.get("phases") or ())] if isinstance(training, dict) else []
    mixtures = [section.get("mixture") for section in sections if isinstance(section, dict)]
    named = [mixture.get(key) for mixture in mixtures if isinstance(mixture, dict) for key in ("shares", "fixed")]
    names = {str(name) for shares in named if isinstance(shares, dict) for name in shares}
    codes = {name: tree["source_language"] if name == "source" else name for name in sorted(names)}
    return {name: _corpus(code, model) for name, code in codes.items() if name not in ("target", *tree["group"])}


def _corpus(code: str, model: Any) -> dict[str, Any]:
    """The corpus of a language: of the source model where it is its own, else a file's."""
    own = model.corpus if isinstance(model, BuiltModel) and model.language == code else load_language(code).corpus
    corpus: dict[str, Any] = own.model_dump(mode="json")
    return corpus


def _refuse_hidden(tree: Mapping[str, Any], parts: tuple[str, ...], text: str) -> None:
    """Refuse an override of a `training` value that every phase sets for itself: it would change nothing."""
    if parts[0] != "training" or len(parts) != 2 or tree["training"].get("steps") == 0:
        return
    phases = tree["training"].get("phases") or ()
    same = next((group for group in OptimizationConfig.alternatives if parts[1] in group), (parts[1],))
    own = [
        (i, name)
        for i, phase in enumerate(phases)
        for name in same
        if isinstance(phase, dict) and phase.get(name) is not None and name not in BUDGETS
    ]
    if own:
        keys = ", ".join(f"training.phases.{i}.{name}" for i, name in own)
        raise ConfigError(f"override {text!r}: phases set their own value; override {keys}")
