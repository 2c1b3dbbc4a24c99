"""Training by two processes, whole or sharded, is training by one; killed at any moment, it goes on to the bit."""

import os
import random
import re
import signal
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file

WAYS = ("none", "full")
KILLS = {"none": 4, "full": 10}
KINDS = {
    "clm": {"batch_size": 7},
    "tied, uneven": {"batch_size": 5, "micro_batch_size": 2, "gradient_checkpointing": True},
    "mtp": {"objective": "mtp", "extra_heads": 2, "trainable": "bottom-top", "layers": 1},
    "documents": {"packing": "documents", "sequence_length": 32, "batch_size": 5, "trainable": "embeddings+head"},
    "lora": {"trainable": "lora", "validation": {"every": 2, "sentences": 5}},
    "new rows": {"trainable": "new-rows", "objective": "mtp", "packing": "documents"},
    "new rows, tied": {"trainable": "new-rows", "batch_size": 5},
    "sparse": {"trainable": "adapter", "adapter": {"kind": "sparse", "nearest": 3, "auxiliary": 0.1}},
    "dense, tied": {"trainable": "adapter", "adapter": {"kind": "dense", "auxiliary": 0.1}, "packing": "documents"},
}


def table(finished, name="losses"):
    return pq.read_table(finished.out / f"{name}.parquet").to_pydict()


def assert_alike(several, alone):
    """Losses and bits per byte within 1e-6 of one process's, weights nearly."""
    found, wanted = table(several), table(alone)
    for name in ("tokens", "predictions", "padding", "learning_rate"):
        assert found[name] == wanted[name]
    for name in ("loss", "objective"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6)
    np.testing.assert_allclose(found["gradient_norm"], wanted["gradient_norm"], rtol=1e-5)
    weights, others = (load_file(finished.out / "model.safetensors") for finished in (several, alone))
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        np.testing.assert_allclose(weight.numpy(), others[name].numpy(), rtol=0, atol=1e-5)
    names = {file.name for file in alone.out.iterdir()}
    assert {file.name for file in several.out.iterdir()} == names
    if "validation.parquet" in names:
        scores = [table(finished, "validation")["bits_per_byte"] for finished in (several, alone)]
        np.testing.assert_allclose(*scores, rtol=1e-6)


@pytest.mark.parametrize("sharding", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_as_one_process(
    tmp_path, run_training, start_processes, make_model_folder, make_phase, mapping, kind, sharding
):
    values = {"steps": 4, "learning_rate": 1e-3, **KINDS[kind]}
    model, further = make_model_folder(tied="tied" in kind), {"mapping": mapping}
    if values.get("trainable") == "adapter":
        further["vocabulary"] = make_model_folder(pad_token_id=5)
    config = make_phase(**values, processes={"sharding": sharding})
    together = start_processes(tmp_path / "two", model, config, further=further)
    alone = run_training(tmp_path / "one", model, make_phase(**values), further=further)
    assert_alike(together.finished(), alone)


def test_halves_of_weights_are_close_to_copies_in_half_precision(
    tmp_path, run_training, start_processes, make_model_folder, make_phase
):
    """Sharded layers compute with bfloat16 weights, norms too; autocast leaves norms alone."""
    values, model = {"steps": 6, "learning_rate": 1e-3, "precision": "bfloat16"}, make_model_folder()
    config = make_phase(**values, processes={"sharding": "full"}, validation={"every": 3, "sentences": 5})
    together = start_processes(tmp_path / "two", model, config)
    alone = run_training(tmp_path / "one", model, make_phase(**values))
    found, wanted = table(together.finished()), table(alone)
    np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=2e-3)
    np.testing.assert_allclose(found["gradient_norm"], wanted["gradient_norm"], rtol=5e-2)


def wait_for(together, step):
    """Until the first process has told of a step from `step` on, or a process has ended."""
    while all(rank.is_alive() for rank in together.ranks):
        told = re.findall(r"step (\d+) of", together.output())
        if told and int(told[-1]) >= step:
            return
        time.sleep(0.002)


def kill_one(together, moment, generator):
    """SIGKILL to one of the processes, some time after the step `moment`; then to the other."""
    wait_for(together, moment)
    time.sleep(generator.random() * 0.03)
    for rank in generator.sample(together.ranks, 2):
        rank.kill()
        rank.join(generator.random() * 0.02)
    together.codes()


@pytest.mark.parametrize("sharding", WAYS)
def test_killed_at_random_moments(tmp_path, start_processes, make_model_folder, make_phase, sharding):
    model = make_model_folder(attention_dropout=0.1)
    values = {"steps": 30, "checkpoint_every": 1, "log_every": 1, "batch_size": 5, "micro_batch_size": 2}
    values |= {"validation": {"every": 4, "sentences": 4}, "processes": {"sharding": sharding}}
    config, generator = make_phase(**values), random.Random(sharding)
    whole = start_processes(tmp_path / "whole", model, config).finished().contents()
    for moment in sorted(generator.sample(range(1, 28), KILLS[sharding])):
        together = start_processes(tmp_path / "killed", model, config)
        kill_one(together, moment, generator)
    assert "resumed after step" in together.output()
    assert start_processes(tmp_path / "killed", model, config).finished().contents() == whole


def test_a_file_that_one_process_finds_damaged_is_used_by_none(tmp_path, start_processes, model_folder, make_phase):
    config = make_phase(steps=8, checkpoint_every=3, processes={"sharding": "full"})
    whole = start_processes(tmp_path, model_folder, config).finished().contents()
    newest = tmp_path / "work" / "checkpoints" / "step-000000006"
    file = newest / "state-00001-of-00002.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    again = start_processes(tmp_path, model_folder, config)
    assert again.finished().contents() == whole
    assert "step-000000006 cannot be used and is removed: another process finds it damaged" in again.output()
    assert "resumed after step 3" in again.output()


@pytest.mark.parametrize(("first", "then"), [("none", "full"), ("full", "none"), ("full", None)])
def test_another_number_of_processes_goes_on(
    tmp_path, run_training, start_processes, make_model_folder, make_phase, first, then
):
    """Half of the training is done by two processes, the rest in another way; the whole is as done by one."""
    model = make_model_folder()
    values = {"steps": 6, "checkpoint_every": 3, "learning_rate": 1e-3}
    start_processes(tmp_path / "several", model, make_phase(**values, processes={"sharding": first})).finished()
    if then is None:
        done = run_training(tmp_path / "several", model, make_phase(**values))
    else:
        again = start_processes(tmp_path / "several", model, make_phase(**values, processes={"sharding": then}))
        done = again.finished()
        assert "resumed after step 3" in again.output()
    assert_alike(done, run_training(tmp_path / "one", model, make_phase(**values)))


@pytest.mark.parametrize("sharding", WAYS)
def test_sigterm_to_one_stops_both_after_the_same_step(tmp_path, start_processes, model_folder, make_phase, sharding):
    config = make_phase(steps=40, log_every=1, processes={"sharding": sharding})
    whole = start_processes(tmp_path / "whole", model_folder, config).finished()
    together = start_processes(tmp_path / "stopped", model_folder, config)
    wait_for(together, 4)
    os.kill(together.ranks[1].pid, signal.SIGTERM)
    assert together.codes() == [143, 143]
    step = re.search(r"SIGTERM: the state after step (\d+) is saved", together.output())[1]
    again = start_processes(tmp_path / "stopped", model_folder, config)
    assert again.finished().contents() == whole.contents()
    assert f"resumed after step {step} of 40" in again.output()


def test_all_stop_when_the_training_diverges(tmp_path, start_processes, model_folder, make_phase):
    config = make_phase(learning_rate=1e30, warmup_steps=0, schedule="constant", checkpoint_every=1)
    together = start_processes(tmp_path, model_folder, config)
    assert together.codes() == [2, 2]
    for rank in (0, 1):
        assert re.search(rf"process {rank}: step \d: the loss is .*lower learning_rate", together.output(rank))


def test_more_processes_than_sequences_are_refused(tmp_path, start_processes, model_folder, make_phase):
    together = start_processes(tmp_path, model_folder, make_phase(batch_size=1))
    assert 2 in together.codes()
    assert "2 processes share the 1 sequences of a step: start fewer, or raise batch_size" in together.output()
