"""Every kind of training, killed for real (SIGKILL) at random moments, ends with the bytes of one that was left alone.

LANGADAPT_TEST_KILLS=20 kills each of them so often (3 without it).
"""

import itertools
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from configs.schema import PhaseConfig
from storage.store import Store
from tasks.isolation import child_environment

pytestmark = pytest.mark.e2e

SERVER = Path(__file__).with_name("forking_server.py")
SHORT = {
    "name": "killed",
    "sequence_length": 32,
    "batch_size": 4,
    "micro_batch_size": 2,
    "learning_rate": 5e-3,
    "schedule": "linear",
    "warmup_steps": 2,
    "weight_decay": 0.1,
    "log_every": 1,
    "checkpoint_every": 1,
    "threads": 1,
    "device": "cpu",
}
KINDS = {
    "clm": {"trainable": "all", "checkpoint_every": 2},
    "documents": {"trainable": "embeddings+head", "packing": "documents"},
    "mtp": {"trainable": "bottom-top", "layers": 1, "objective": "mtp", "extra_heads": 2},
    "lora": {"trainable": "lora", "lora": {"dropout": 0.1}, "checkpoint_every": 2},
    "new-rows": {"trainable": "new-rows", "packing": "documents"},
    "dense adapter": {"trainable": "adapter", "adapter": {"kind": "dense", "auxiliary": 0.1}},
    "sparse adapter": {"trainable": "adapter", "adapter": {"kind": "sparse", "nearest": 3, "auxiliary": 0.1}},
    # the rate is far too high, so that scores get worse, and the best weights are not the last
    "mixture, validation, early stop": {
        "trainable": "all",
        "mixture": {"shares": {"target": 0.7, "source": 0.3}},
        "validation": {"every": 2, "sentences": 8, "patience": 3},
        "learning_rate": 0.3,
        "schedule": "constant",
        "checkpoint_every": 3,
        "steps": 60,
    },
}


@pytest.fixture(scope="module")
def server():
    """Runs one request after another (see forking_server.py)."""
    with subprocess.Popen(
        [sys.executable, str(SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
    ) as process:

        def run(**request):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.kill()


@pytest.fixture(scope="module")
def artifacts(finished):
    """Node of the finished chain -> folder of its artifact."""
    chain, result = finished
    store = Store(str(chain.store))
    return {item.node: str(store.open(item.artifact)) for item in result.outcomes}


@pytest.fixture
def train(server, artifacts, tmp_path):
    """Runs a phase on artifacts of the chain: (config, place of its state, signal) -> answer, written files."""
    attempts = itertools.count()

    def run(config, place="killed", stop=None):
        adapter = config.trainable == "adapter"
        model = {"model": artifacts["initial-model"]}
        over_source = {"model": artifacts["source.pretraining"], "vocabulary": artifacts["initial-model"]}
        inputs = {"corpus": artifacts["corpus"], "mapping": artifacts["mapping"], **(over_source if adapter else model)}
        if config.mixture is not None:
            inputs["corpus.source"] = artifacts["source.corpus"]
        out, work = tmp_path / f"out{next(attempts)}", tmp_path / place
        out.mkdir()
        work.mkdir(exist_ok=True)
        answer = server(
            stage="training", config=config.model_dump_json(), inputs=inputs, out=str(out), work=str(work), stop=stop
        )
        return answer, {file.name: file.read_bytes() for file in sorted(out.iterdir())}

    return run


def configured(kind, kills):
    """The phase of that kind, with steps enough for so many kills, of which each may come three steps further."""
    return PhaseConfig(**{**SHORT, "steps": 4 * (kills + 1), **KINDS[kind]})


def kill_often(train, config, kills, seed):
    """Train to the end through kills: the first before any step, the last while the model is written.

    Those between come at most two steps' time after a random step.
    """
    answer, whole = train(config, "whole")
    assert answer["code"] == 0
    moments, last, codes = random.Random(seed), answer["step"], []
    for step in (-1, *sorted(moments.choices(range(last - 2), k=kills - 2)), last):
        delay = moments.uniform(0, answer["step_seconds"] * (1 if step == last else 2))
        codes.append(train(config, stop={"number": signal.SIGKILL, "step": step, "seconds": delay})[0]["code"])
    assert set(codes) <= {-signal.SIGKILL, 0}, "only the kill may end it before its end"
    assert codes.count(-signal.SIGKILL) > kills / 2, "most kills must find it alive"
    answer, contents = train(config)
    assert answer["code"] == 0
    assert contents == whole
    assert contents.keys() >= {"model.safetensors", "losses.parquet"}


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(train, kills, kind):
    kill_often(train, configured(kind, kills), kills, seed=kind)


def test_one_training_through_ten_kills(train):
    config = configured("clm", 10).model_copy(update={"checkpoint_every": 1})
    kill_often(train, config, 10, seed=0)


def test_terminated_and_killed(train):
    """SIGTERM writes a checkpoint after the step that is being done, whatever the interval."""
    config = configured("clm", 3).model_copy(update={"checkpoint_every": 100})
    _, whole = train(config, "whole")
    stopped, nothing = train(config, stop={"number": signal.SIGTERM, "step": 5, "seconds": 0.0})
    assert (stopped["code"], nothing) == (128 + signal.SIGTERM, {})
    killed, _ = train(config, stop={"number": signal.SIGKILL, "step": stopped["step"] + 1, "seconds": 0.0})
    assert killed["code"] == -signal.SIGKILL
    done, contents = train(config)
    assert (done["code"], contents) == (0, whole)
    assert done["first"] == stopped["step"] + 1
