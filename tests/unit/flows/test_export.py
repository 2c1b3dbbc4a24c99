"""`langadapt export`: a folder for plain transformers, whole or not at all, over nothing of the person's."""

import json
import shutil

import pytest
import torch

from configs.faults import ConfigError
from flows import cli
from flows.export_folder import MARK, export_model
from flows.exported_model import find_model

CARD = "---\nlanguage: eo\n---\n\n# The card of the run\n"


def weights(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert tokenizer.convert_ids_to_tokens(tokenizer("la kato dormas .")["input_ids"]) == ["la", "kato", "dormas", "."]
    with torch.no_grad():
        return model(**tokenizer("la kato", return_tensors="pt")).logits


@pytest.mark.parametrize("what", ["eo", "20300101"])
def test_the_last_model_loads_with_plain_transformers(trained, call, tmp_path, what):
    store, run_id = trained
    code, out, _ = call("export", what, str(tmp_path / "a" / "model"), "--json")
    assert code == 0
    assert json.loads(out)["node"] == "training.2"
    folder = tmp_path / "a" / "model"
    names = {path.name for path in folder.iterdir()}
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not [name for name in names if name.endswith((".parquet", ".tmp")) or name == "manifest.json"]
    assert (folder / "README.md").read_text() == CARD
    assert json.loads((folder / MARK).read_text())["run"] == run_id
    kept = find_model(store, run_id).files["config.json"].path.parent
    assert torch.equal(weights(folder), weights(kept))
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_another_phase_has_its_own_weights_and_a_card_of_its_own(trained, call, tmp_path):
    for phase, node in ((0, "initial-model"), (1, "training.1"), (2, "training.2")):
        code, out, _ = call("export", "eo", str(tmp_path / str(phase)), "--phase", str(phase), "--json")
        assert code == 0
        assert json.loads(out)["node"] == node
    logits = [weights(tmp_path / str(phase)) for phase in range(3)]
    assert not torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[1], logits[2])
    card = (tmp_path / "1" / "README.md").read_text()
    assert "phase 1 embeddings" in card
    assert "phase 2" not in card
    assert "None: these are" in (tmp_path / "0" / "README.md").read_text()


def test_an_unchanged_export_is_replaced(trained, call, tmp_path):
    folder = str(tmp_path / "model")
    assert call("export", "eo", folder, "--phase", "1")[0] == 0
    assert call("export", "eo", folder)[0] == 0
    assert (tmp_path / "model" / "README.md").read_text() == CARD
    assert {path.name for path in tmp_path.iterdir()} == {"model", "store"}


def change_card(folder):
    (folder / "README.md").write_text("mine")


def add_file(folder):
    (folder / "notes.txt").write_text("mine")


def lose_mark(folder):
    (folder / MARK).unlink()


def break_mark(folder):
    (folder / MARK).write_text("[]")


@pytest.mark.parametrize("change", [change_card, add_file, lose_mark, break_mark])
def test_what_a_person_has_changed_is_not_overwritten(trained, call, tmp_path, change):
    folder = tmp_path / "model"
    assert call("export", "eo", str(folder))[0] == 0
    change(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code, _, error = call("export", "eo", str(folder), "--phase", "1")
    assert code == cli.EXIT_INPUT
    assert "is not an unchanged export" in error
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_neither_a_file_nor_a_link_is_overwritten(trained, call, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("file", "link"):
        code, _, error = call("export", "eo", str(tmp_path / name))
        assert code == cli.EXIT_INPUT
        assert "is not a folder" in error


def test_an_empty_folder_is_filled(trained, call, tmp_path):
    (tmp_path / "model").mkdir()
    assert call("export", "eo", str(tmp_path / "model"))[0] == 0


def test_an_export_that_breaks_leaves_what_was_there(trained, call, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    assert call("export", "eo", str(folder), "--phase", "1")[0] == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def half(source, target):
        target.write_bytes(source.read_bytes()[:-1])

    monkeypatch.setattr(shutil, "copyfile", half)
    code, _, error = call("export", "eo", str(folder))
    assert code == cli.EXIT_FAILED
    assert "is not what the store has a record of" in error
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"model", "store"}


def test_a_damaged_model_is_not_exported(trained, call, tmp_path):
    store, run_id = trained
    weight = find_model(store, run_id).files["model.safetensors"].path
    weight.chmod(0o644)
    content = bytearray(weight.read_bytes())
    content[-1] ^= 1
    weight.write_bytes(content)
    code, _, error = call("export", "eo", str(tmp_path / "model"))
    assert code == cli.EXIT_INPUT
    assert "run it again" in error
    assert not (tmp_path / "model").exists()


def test_what_fits_no_run_is_said(trained):
    store, run_id = trained
    for what, message in (("zz", "no complete run of language 'zz'"), ("2031", "fits nothing"), ("", "fits nothing")):
        with pytest.raises(ConfigError, match=message):
            find_model(store, what)
    with pytest.raises(ConfigError, match=r"has the phases 1 to 2 .* not 3"):
        find_model(store, run_id, 3)


def test_a_run_that_ended_early_has_no_last_model(trained):
    store, run_id = trained
    record = json.loads(store.read_run(run_id))
    record["stages"], record["status"] = record["stages"][:2], "failed"
    broken = "20310101T000000-broken"
    store.write_run(broken, "run.json", json.dumps(record | {"run_id": broken}).encode())
    with pytest.raises(ConfigError, match=r"\(failed\) has no model of 'training.2'.*--phase"):
        find_model(store, "20310101")
    assert "phase 1 embeddings" in find_model(store, "20310101", 1).card
    assert find_model(store, "eo").run_id == run_id


def test_a_record_of_another_version_is_said(trained):
    store, run_id = trained
    record = json.loads(store.read_run(run_id))
    record["config"] = {"language": "eo"}
    store.write_run(run_id, "run.json", json.dumps(record).encode())
    with pytest.raises(ConfigError, match="made by another version"):
        find_model(store, run_id)


def test_a_copy_that_differs_is_refused(trained, tmp_path):
    store, run_id = trained
    model = find_model(store, run_id)
    file = model.files["config.json"]
    file.path.chmod(0o644)
    file.path.write_text("{}")
    with pytest.raises(OSError, match="record of"):
        export_model(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
