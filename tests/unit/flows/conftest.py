"""A folder that looks like a model from outside."""

import numpy as np
import pytest
from safetensors.numpy import save_file


@pytest.fixture
def write_model(tmp_path):
    """Makes the folder `model` with the named files; weights and config.json can be read."""

    def write(*names):
        folder = tmp_path / "model"
        folder.mkdir()
        for name in names:
            (folder / name).write_text("{}" if name.endswith(".json") else name)
        for path in folder.glob("*.safetensors"):
            save_file({"weight": np.zeros(3, np.float32)}, path)
        return folder

    return write
