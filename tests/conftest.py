"""Fixtures for all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real text (LANGADAPT_DATA_ROOT, or ../shared/data); skips where there is none."""
    root = Path(os.environ.get("LANGADAPT_DATA_ROOT", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not (root / "parallel").is_dir():
        pytest.skip(f"no shared data at {root}: set LANGADAPT_DATA_ROOT to run this test")
    return root


@pytest.fixture(autouse=True)
def environment_of_its_own() -> Iterator[None]:
    """Put the environment back as it was: the command sets defaults of Prefect in it, which change logging for good."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
