"""What all sections share: the base model, keys, names and paths."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

NOT_IN_KEY: dict[str, Any] = {"not_in_key": True}
CODE_PATTERN = r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$"
REPOSITORY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Config(BaseModel):
    """Base of every configuration model: immutable, unknown keys are errors.

    Attributes:
        alternatives: groups of fields that say the same thing in several ways; a value laid over another of its group
            takes its place.
    """

    alternatives: ClassVar[tuple[tuple[str, ...], ...]] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


def key_fields(config: BaseModel) -> dict[str, Any]:
    """The values of `config` that decide its stage's answer, as plain JSON types, nested models included.

    Fields declared with `json_schema_extra=NOT_IN_KEY` are left out.
    """
    return {
        name: _key_value(getattr(config, name))
        for name, field in type(config).model_fields.items()
        if field.json_schema_extra != NOT_IN_KEY
    }


def _key_value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return key_fields(value)
    if isinstance(value, (list, tuple)):
        return [_key_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _key_value(item) for key, item in value.items()}
    return value


def valid_code(code: str) -> bool:
    """Whether `code` is a language code that may name files and artifacts."""
    return re.fullmatch(CODE_PATTERN, code) is not None


def _relative(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not path.strip():
        raise ValueError(
            f"{path!r} must be a relative path inside the data root, without '..'; "
            "set the data root with --data-root or LANGADAPT_DATA_ROOT"
        )
    return path


RelativePath = Annotated[str, AfterValidator(_relative)]
"""A path below the data root."""
InputPath = RelativePath | None
"""A file below the data root, or none."""
