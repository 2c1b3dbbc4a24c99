"""Values laid over a configuration: mappings, and single values by 'key.subkey=value'; nothing is changed in place."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from pydantic import BaseModel

from configs.faults import ConfigError, known_keys, models_in, suggestion, takes_any_key, type_inside


def merged(base: Mapping[str, Any], changes: Mapping[str, Any], kind: Any = None) -> dict[str, Any]:
    """`base`, a value of type `kind`, with `changes` laid over it, mapping by mapping; lists and values are replaced.

    A change takes the place of what says the same in another way (`Config.alternatives`).
    """
    result = _without_alternatives(base, kind, [key for key, value in changes.items() if value is not None])
    for key, value in changes.items():
        old, inner = result.get(key), type_inside(kind, key)
        result[key] = merged(old, value, inner) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def _without_alternatives(base: Mapping[str, Any], kind: Any, keys: Iterable[str]) -> dict[str, Any]:
    """`base`, a value of type `kind`, without the values that those of `keys` take the place of."""
    groups = [group for model in models_in(kind) for group in getattr(model, "alternatives", ())]
    replaced = {name for group in groups for key in keys if key in group for name in group if name != key}
    return {key: None if key in replaced else value for key, value in base.items()}


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


def overridden(tree: Mapping[str, Any], schema: type[BaseModel], text: str) -> dict[str, Any]:
    """`tree` with one value changed, as 'key.subkey=value' says.

    Keys are those that are there, names of a mapping that takes any, and those of an optional section that is not set
    and can be made from its defaults ('mapping.wechsel.neighbours=5').

    Args:
        tree: the configuration as plain values.
        schema: the model that it is meant for.
        text: the override.

    Raises:
        ConfigError: there is no such key, or nothing to hold it.
    """
    parts, value = parse_override(text)
    changed = _changed(tree, schema, parts, 0, (value, text))
    assert isinstance(changed, dict)
    return changed


def _changed(node: Any, kind: Any, parts: tuple[str, ...], depth: int, override: tuple[Any, str]) -> Any:
    """`node`, a value of type `kind` at `parts[:depth]`, with what stands under `parts[depth:]` replaced."""
    value, text = override
    if depth == len(parts):
        return value
    part, inner = parts[depth], type_inside(kind, parts[depth])
    if isinstance(node, list):
        if not part.isdigit() or int(part) >= len(node):
            raise ConfigError(
                f"override {text!r}: {'.'.join(parts[:depth])} has items 0 to {len(node) - 1}, not {part!r}"
            )
        at = int(part)
        return [*node[:at], _changed(node[at], inner, parts, depth + 1, override), *node[at + 1 :]]
    if not isinstance(node, dict):
        raise ConfigError(f"override {text!r}: {'.'.join(parts[:depth])} is {node!r}, which has nothing inside")
    if part not in node and inner is None:
        known = sorted({*node, *known_keys(kind)})
        raise ConfigError(f"override {text!r}: unknown key {'.'.join(parts[: depth + 1])!r}" + suggestion(part, known))
    child = node.get(part)
    if child is None and depth + 1 < len(parts):
        child = _made_from_defaults(inner, parts, depth, text)
    node = _without_alternatives(node, kind, [part] if depth + 1 == len(parts) and value is not None else [])
    return {**node, part: _changed(child, inner, parts, depth + 1, override)}


def _made_from_defaults(kind: Any, parts: tuple[str, ...], depth: int, text: str) -> dict[str, Any]:
    """What a key holds before its first value is set: an empty section, where all its values have defaults.

    Raises:
        ConfigError: it has values without a default, or may be one of several things.
    """
    if takes_any_key(kind):
        return {}
    models = models_in(kind)
    if len(models) != 1 or any(field.is_required() for field in models[0].model_fields.values()):
        key = ".".join(parts[: depth + 1])
        raise ConfigError(f"override {text!r}: {key} is not set in this run; give it whole, as {key}='{{…: …}}'")
    return {}
