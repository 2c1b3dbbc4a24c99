"""What is wrong with a configuration, said with file, line, key and the known names."""

import difflib
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names file, line and key, and lists every fault found."""


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that a value of this type may be: one, several for a union of them, none for anything else."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, typing.Annotated):
        return [model for part in get_args(annotation) for model in models_in(part)]
    return []


def type_inside(annotation: Any, part: str | int) -> Any:
    """The type of what stands under the key or number `part` in a value of type `annotation`; None where none can.

    In a union of models that are told apart by their `kind`, as in the place of a fault, a kind chooses its model.
    """
    found = models_in(annotation)
    for model in found:
        field = model.model_fields.get(str(part))
        if field is not None:
            return field.annotation if not field.metadata else typing.Annotated[field.annotation, *field.metadata]
        kind = model.model_fields.get("kind")
        if len(found) > 1 and kind is not None and kind.default == part:
            return model
    for plain in _alternatives(annotation):
        inner = get_args(plain)
        if get_origin(plain) is dict:
            return inner[1]
        if get_origin(plain) in (tuple, list) and str(part).isdigit():
            return inner[0]
    return None


def takes_any_key(annotation: Any) -> bool:
    """Whether a value of this type may be a mapping with keys of a person's choice."""
    return annotation is Any or any(get_origin(plain) is dict for plain in _alternatives(annotation))


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """The parts of a union; the type itself where it is none."""
    if get_origin(annotation) is typing.Annotated:
        return _alternatives(get_args(annotation)[0])
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def known_keys(annotation: Any) -> list[str]:
    """The keys that a value of this type may have, sorted; empty where that is not known."""
    return sorted({name for model in models_in(annotation) for name in model.model_fields})


def suggestion(name: str, known: Iterable[str]) -> str:
    """The known name most like `name`, or all of them, to be put behind a message; empty where none are known."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(names)}" if names else ""


def line_of(node: yaml.Node | None, location: Sequence[str | int]) -> int | None:
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


def describe_errors(error: ValidationError, schema: Any, path: Path | None, node: yaml.Node | None) -> str:
    """All faults of a validation, one a line: file:line, key, what is wrong, the value, and a suggestion.

    Args:
        error: what the schema says.
        schema: a model, or an annotated union of models.
        path: the file; None where the values come from several.
        node: the file's nodes, for the lines.
    """
    lines = []
    faults = error.errors()
    for fault in faults:
        location = fault["loc"]
        inner = any(other["loc"][: len(location)] == location for other in faults if other is not fault)
        if fault["type"] == "too_short" and inner:
            continue  # a list is short of the item whose own fault is listed
        key = ".".join(str(part) for part in location)
        number = line_of(node, location)
        where = f"{path}:{number}: " if path is not None and number else f"{path}: " if path is not None else ""
        message = fault["msg"].removeprefix("Value error, ")
        text = f"{where}{key}: {message}" if key else f"{where}{message}"
        if fault["type"] == "extra_forbidden":
            text = f"{where}unknown key {key!r}" + suggestion(str(location[-1]), _keys_at(schema, location[:-1]))
        elif not isinstance(fault["input"], dict | list) and fault["type"] not in ("missing", "value_error"):
            text += f" (got {fault['input']!r})"
        lines.append(text)
    return "\n".join(lines)


def _keys_at(schema: Any, location: Sequence[str | int]) -> list[str]:
    for part in location:
        schema = type_inside(schema, part)
    return known_keys(schema)
