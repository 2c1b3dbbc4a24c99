"""An initial model is made within the size of its tables, and verified within its own size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peaks are measured with Linux' /proc"
)

MIB = 2**20
ROWS, WIDTH, LAYERS = 32_000, 1024, 6

# Peaks of resident memory (mapped files included) in MiB, above what the process holds with everything imported and one
# small run behind it. The kernel's own mark is reset: getrusage gives a child the peak of the process that started it.
CHILD = """
import json, sys
from pathlib import Path
from configs.schema import InitialModelConfig
from tasks.contract import StageContext, load_stage
from tasks.embeddings import verification

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

def reset():
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")

def run(inputs, out):
    Path(out).mkdir()
    inputs = {name: Path(path) for name, path in inputs.items()}
    stage = load_stage("initial-model")
    return stage.run(StageContext(config=InitialModelConfig(), inputs=inputs, out=Path(out), work=Path(out)))

small, large, out = json.loads(sys.argv[1])
run(small, out + "/small")
start = reset()
written = 0
original = verification.verify
def verify(*arguments):
    global written
    written = status("VmHWM")
    reset()
    return original(*arguments)
verification.verify = verify
result = run(large, out + "/large")
seconds = {row["step"]: round(row["seconds"], 2) for row in result.measurements}
print(json.dumps({"written": written - start, "verified": status("VmHWM") - start, "seconds": seconds}))
"""


def large_model(folder):
    """A Llama of a few hundred MiB in bfloat16, in several files."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=ROWS, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=16, num_key_value_heads=16, max_position_embeddings=64, dtype="bfloat16",
        bos_token_id=1, eos_token_id=2, pad_token_id=None,
    )  # fmt: skip
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model = model.to(torch.bfloat16).to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.02)
    model.save_pretrained(str(folder), max_shard_size="100MB")
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory, tokenizers, build):
    root = tmp_path_factory.mktemp("memory")
    size = large_model(root / "large")
    inputs = {"tokenizer": tokenizers["dutch"], "mapping": build.write_mapping(root / "mapping", build.some_mapping())}
    small = inputs | {"source_model": build.source_model(root / "small", dtype=torch.bfloat16)}
    wide = build.some_mapping(source=ROWS, target=400)
    large = inputs | {"source_model": root / "large", "mapping": build.write_mapping(root / "wide", wide)}
    (root / "out").mkdir()
    given = json.dumps([{name: str(path) for name, path in case.items()} for case in (small, large)]
                       + [str(root / "out")])  # fmt: skip
    done = subprocess.run([sys.executable, "-c", CHILD, given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"model": size / MIB}


def test_writing_holds_tables_and_not_the_model(measured):
    table = ROWS * WIDTH * 2 / MIB
    assert measured["model"] > 300
    assert measured["written"] < 2 * table + 128, measured


def test_verification_stays_within_the_models_size(measured):
    assert measured["verified"] < measured["model"] + 128, measured
