"""YAML files into configuration models; every error names the file, the line and the key."""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from configs.schema import (
    CODE_PATTERN,
    BuiltModel,
    LanguageConfig,
    LocalModel,
    ModelConfig,
    Recipe,
    RunConfig,
    TokenizerConfig,
    unused_settings,
    valid_code,
)

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

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names file, line and key, and lists every fault found."""


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


def _read_yaml(path: Path) -> tuple[Any, yaml.Node | None]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    return _parsed(path, text)


@lru_cache(maxsize=256)  # every combination of the files is composed by `langadapt validate`
def _parsed(path: Path, text: str) -> tuple[Any, yaml.Node | None]:
    """The content of a YAML file, not to be changed, and its nodes."""
    try:
        return yaml.load(text, Loader=_StrictLoader), yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        raise ConfigError(f"{where}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def _line_of(node: yaml.Node | None, location: Sequence[str | int]) -> int | None:
    """Line (from 1) of the value at `location`, or of the deepest part of it that exists."""
    if node is None:
        return None
    line = int(node.start_mark.line) + 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            match = [(key, value) for key, value in node.value if key.value == str(part)]
            if not match:
                continue  # a discriminator tag of a union stands in the location, not in the file
            line, node = int(match[0][0].start_mark.line) + 1, match[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = int(node.start_mark.line) + 1
    return line


def _fields_at(schema: type[BaseModel] | None, location: Sequence[str | int]) -> list[str]:
    """Known keys of the model that `location`'s last part should belong to; empty when it is not one model."""
    model: Any = schema
    for part in location[:-1]:
        field = getattr(model, "model_fields", {}).get(part)
        model = _model_in(field.annotation) if field is not None else None
        if model is None:
            return []
    return sorted(getattr(model, "model_fields", {}))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    candidates = [annotation, *getattr(annotation, "__args__", ())]
    models = [item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel)]
    return models[0] if len(models) == 1 else None


def describe_errors(error: ValidationError, schema: type[BaseModel] | None, path: Path | None, node: Any) -> str:
    """All faults of a validation, one a line: file:line, key, what is wrong, the value, and a suggestion."""
    lines = []
    faults = error.errors()
    for fault in faults:
        location = fault["loc"]
        inner = any(other["loc"][: len(location)] == location for other in faults if other is not fault)
        if fault["type"] == "too_short" and inner:
            continue  # a list is short of the item whose own fault is listed
        key = ".".join(str(part) for part in location)
        number = _line_of(node, location)
        where = f"{path}:{number}: " if path is not None and number else f"{path}: " if path is not None else ""
        text = f"{where}{key}: {fault['msg']}" if key else f"{where}{fault['msg']}"
        if fault["type"] == "extra_forbidden":
            known = _fields_at(schema, location)
            close = difflib.get_close_matches(str(location[-1]), known, n=1)
            text = f"{where}unknown key {key!r}"
            text += f"; did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(known)}" if known else ""
        elif not isinstance(fault["input"], dict | list) and fault["type"] not in ("missing", "value_error"):
            text += f" (got {fault['input']!r})"
        lines.append(text)
    return "\n".join(lines)


def load(path: Path, schema: Any) -> Any:
    """The YAML file `path` as an instance of `schema` (a model, or an annotated union of models).

    Raises:
        ConfigError: the file is missing, not YAML, or does not fit; every fault is listed.
    """
    data, node = _read_yaml(path)
    if not isinstance(data, dict):
        found = "the file is empty" if data is None else f"got {type(data).__name__}"
        raise ConfigError(f"{path}: a mapping of keys to values is needed, {found}")
    try:
        return TypeAdapter(schema).validate_python(data)
    except ValidationError as error:
        model = schema if isinstance(schema, type) else None
        raise ConfigError(describe_errors(error, model, path, node)) from None


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


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, mapping by mapping; lists and values are replaced."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def parse_override(text: str) -> tuple[tuple[str, ...], Any]:
    """'training.steps=200' as (('training', 'steps'), 200); the value is read as YAML.

    Raises:
        ConfigError: no '=', or an empty key.
    """
    key, sign, value = text.partition("=")
    parts = tuple(part.strip() for part in key.split("."))
    if not sign or not all(parts):
        raise ConfigError(f"override {text!r} must look like key.subkey=value")
    try:
        return parts, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"override {text!r}: the value is not YAML: {error}") from None


def _set(tree: Any, parts: tuple[str, ...], value: Any, text: str) -> None:
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        if isinstance(tree, list):
            if not part.isdigit() or int(part) >= len(tree):
                raise ConfigError(
                    f"override {text!r}: {'.'.join(parts[:depth])} has items 0 to {len(tree) - 1}, not {part!r}"
                )
            if last:
                tree[int(part)] = value
            else:
                tree = tree[int(part)]
        elif isinstance(tree, dict) and part in tree:
            if last:
                tree[part] = value
            elif tree[part] is None:
                raise ConfigError(f"override {text!r}: {'.'.join(parts[: depth + 1])} is not set in this run")
            else:
                tree = tree[part]
        else:
            known = sorted(tree) if isinstance(tree, dict) else []
            close = difflib.get_close_matches(part, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(known)}" if known else ""
            raise ConfigError(f"override {text!r}: unknown key {'.'.join(parts[: depth + 1])!r}{hint}")


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
        sections = merged(sections, changes)
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
        "helper": None if chosen.helper is None else chosen.helper.model_dump(mode="json"),
        **sections,
    }
    _override(tree, [text for text in overrides if not _of_group(text)])
    _drop_unread(tree["tokenizer"], sections["tokenizer"], overrides)
    tree["group"] = _group_corpora(tree["tokenizer"], source)
    _override(tree, [text for text in overrides if _of_group(text)])
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(describe_errors(error, RunConfig, None, None)) from None


def _override(tree: dict[str, Any], overrides: Sequence[str]) -> None:
    for text in overrides:
        parts, value = parse_override(text)
        if parts[0] in ("language", "language_name", "source_language", "recipe", "paper"):
            raise ConfigError(f"override {text!r}: choose {parts[0]!r} by its own argument")
        _set(tree, parts, value, text)
        _refuse_hidden(tree, parts, text)


def _of_group(text: str) -> bool:
    """Whether an override changes a corpus of the tokenizer's group, which is known after all other overrides."""
    return parse_override(text)[0][0] == "group"


def _drop_unread(tokenizer: Any, written: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Give settings that the tokenizer's strategy does not read their defaults, but for those that an override names.

    A language says how large a vocabulary fits its text, whatever the strategy; that is no fault where the strategy
    trains none. (A recipe that sets what its own strategy does not read has been refused when it was loaded.)

    Args:
        tokenizer: the section, changed in place.
        written: the section before the overrides.
        overrides: 'key.subkey=value' texts; a key named there is left as it is, for the error that it gives.
    """
    if not isinstance(tokenizer, dict):
        return
    named = {parts[1] for parts, _ in map(parse_override, overrides) if parts[0] == "tokenizer" and len(parts) > 1}
    for key in unused_settings(str(tokenizer.get("strategy")), str(tokenizer.get("algorithm"))) - named:
        if key in written and tokenizer.get(key) == written[key]:
            tokenizer[key] = TokenizerConfig.model_fields[key].default


def _group_corpora(tokenizer: Any, model: Any) -> dict[str, Any]:
    """The corpus of each language of the tokenizer's group: of the source model where it is its own, else a file's.

    Raises:
        ConfigError: there is no such language.
    """
    codes = tokenizer.get("group") if isinstance(tokenizer, dict) else None
    own = {model.language: model.corpus} if isinstance(model, BuiltModel) else {}
    if not isinstance(codes, list | tuple) or not all(isinstance(code, str) for code in codes):
        return {}  # not what the schema wants; it will say so
    return {code: (own.get(code) or load_language(code).corpus).model_dump(mode="json") for code in codes}


def _refuse_hidden(tree: Mapping[str, Any], parts: tuple[str, ...], text: str) -> None:
    """Refuse an override of a `training` value that every phase sets for itself: it would change nothing."""
    if parts[0] != "training" or len(parts) != 2:
        return
    own = [i for i, phase in enumerate(tree["training"]["phases"]) if phase.get(parts[1]) is not None]
    if own and parts[1] != "steps":
        keys = ", ".join(f"training.phases.{i}.{parts[1]}" for i in own)
        raise ConfigError(f"override {text!r}: phases set their own value; override {keys}")
