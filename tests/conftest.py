"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real text (LANGADAPT_DATA_ROOT, or ../shared/data); skips where there is none."""
    root = Path(os.environ.get("LANGADAPT_DATA_ROOT", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not (root / "parallel").is_dir():
        pytest.skip(f"no shared data at {root}: set LANGADAPT_DATA_ROOT to run this test")
    return root
