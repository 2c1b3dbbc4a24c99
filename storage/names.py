"""Names that become parts of paths: nothing that could leave the store's root gets through."""

import re
from pathlib import PurePosixPath

_STAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_KEY = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_stage(stage: str) -> str:
    """`stage`, which is 1 to 100 letters, digits, '_' or '-' and starts with a letter or digit.

    Raises:
        ValueError: it is anything else.
    """
    if not _STAGE.fullmatch(stage):
        raise ValueError(f"stage name {stage!r}: letters, digits, '_' and '-' only, starting with a letter or digit")
    return stage


def check_key(key: str) -> str:
    """`key`, which is 64 lower-case hexadecimal digits.

    Raises:
        ValueError: it is anything else.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"artifact key {key!r}: 64 lower-case hexadecimal digits (a sha256) expected")
    return key


def check_name(name: str, what: str = "name") -> str:
    """`name`, which is one path component: letters, digits, '.', '_' and '-', starting with a letter or digit.

    Raises:
        ValueError: it is anything else.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r}: letters, digits, '.', '_' and '-' only, starting with a letter or digit")
    return name


def check_relative_path(path: str) -> str:
    """`path`, which is relative, with '/' between its parts, and stays inside its folder.

    Raises:
        ValueError: it is absolute, empty, has '.' or '..' parts, backslashes, control characters or is not Unicode.
    """
    parts = path.split("/")
    if (
        any(part in ("", ".", "..") for part in parts)
        or PurePosixPath(path).is_absolute()
        or "\\" in path
        or _CONTROL.search(path)
    ):
        raise ValueError(f"file name {path!r}: a relative path without '.', '..', backslash or control characters")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"file name {path!r} is not valid Unicode") from error
    return path
