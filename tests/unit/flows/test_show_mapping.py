"""`langadapt show mapping` on a mapping made by hand, put into a store as a run would."""

import json

import numpy as np
import pytest

from flows import cli
from storage.store import BuildRequest, Built, Store
from tasks.embeddings.canonical import Vocabulary
from tasks.embeddings.mapping_files import write_mapping
from tasks.embeddings.token_mapping import TokenMapping

TARGET = ["<s>", "▁vijftien", "▁vijf", "vijf", "ĠÃ©Ã©n", "<0x41>", "▁zestien"]
SOURCE = ["<s>", "▁fifteen", "▁15", "▁Fif", "teen", "▁one"]


def vocabulary(tokens, surfaces):
    special = np.array([token == "<s>" for token in tokens])
    byte = np.array([token.startswith("<0x") for token in tokens])
    return Vocabulary(tokens, surfaces, byte, special, {"bos": 0})


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store with one mapping and a run of the language nl that has it; gives (store, key of the mapping)."""
    monkeypatch.setenv("LANGADAPT_STORE", str(tmp_path / "store"))
    made = Store(str(tmp_path / "store"))
    target = vocabulary(TARGET, [b"", b" vijftien", b" vijf", b"vijf", " één".encode(), b"A", b" zestien"])
    source = vocabulary(SOURCE, [token.replace("▁", " ").encode() for token in SOURCE])
    mapping = TokenMapping.from_coo(
        np.array([0, 1, 1, 1, 1, 2, 3, 4, 5]), np.array([0, 1, 2, 3, 4, 3, 3, 5, 3]),
        np.array([1, 0.52, 0.46, 0.01, 0.01, 1, 1, 1, 1]), (7, 6),
        np.array([1, 0, 0, 2, 0, 2, 3], dtype=np.uint8), ("aligned", "special", "fallback-parts", "unknown"),
    )  # fmt: skip
    frequency = np.array([0, 60, 20, 10, 5, 0, 5])

    def build(out, work):
        write_mapping(out, mapping, target, source, frequency, 0)
        return Built()

    artifact = made.get_or_build(BuildRequest("mapping", 1, {}, {}), build).artifact
    add_run(made, "20300101T000000-nl", [("mapping", artifact.key, "mapping en-nl")])
    return made, artifact.key


def add_run(store, run_id, stages):
    rows = [{"node": n, "stage": "mapping", "key": key, "label": label} for n, key, label in stages]
    record = {"run_id": run_id, "language": "nl", "status": "completed", "stages": rows, "started_at": ""}
    store.write_run(run_id, "run.json", json.dumps(record).encode())


def test_a_token_with_its_weights_and_their_origin(call, store):
    code, out, _ = call("show", "mapping", "nl", "--token", "▁vijftien")
    assert code == 0
    assert "▁vijftien (id 1): aligned, frequency 60 (60.0 %)" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["▁fifteen", "0.5200"] in lines
    assert ["▁15", "0.4600"] in lines
    _, shown, _ = call("show", "mapping", "nl", "--token", "▁vijftien", "--limit", "2", "--json")
    (row,) = json.loads(shown)
    assert [item["token"] for item in row["weights"]] == ["▁fifteen", "▁15"]
    assert row["sources"] == 4


@pytest.mark.parametrize("which", ["nl", "20300101", "key"])
def test_language_run_and_key_name_the_same_mapping(call, store, which):
    code, out, _ = call("show", "mapping", store[1][:12] if which == "key" else which, "--json")
    assert code == 0
    assert json.loads(out)["key"] == store[1]


@pytest.mark.parametrize(
    ("text", "ids"),
    [("vijf", [3, 2]), ("▁vijf", [2]), ("Ġvijf", [2]), (" vijf", [2]), ("##vijf", [3]), ("één", [4]), ("▁één", [4]),
     ("ĠÃ©Ã©n", [4]), ("<0x41>", [5]), ("<s>", [0])],
)  # fmt: skip
def test_tokens_by_string_by_text_and_without_marks(call, store, text, ids):
    code, out, err = call("show", "mapping", "nl", "--token", text, "--json")
    assert code == 0, err
    assert [row["target_id"] for row in json.loads(out)] == ids


@pytest.mark.parametrize(
    ("text", "near"), [("vijftein", "▁vijftien"), ("▁VIJFTIEN", "▁vijftien"), ("vijfti", "▁vijftien")]
)
def test_an_unknown_token_has_suggestions(call, store, text, near):
    code, _, err = call("show", "mapping", "nl", "--token", text)
    assert code == cli.EXIT_INPUT
    assert "no token" in err
    assert near in err


def test_an_uncovered_row_says_so(call, store):
    code, out, _ = call("show", "mapping", "nl", "--token", "▁zestien")
    assert code == 0
    assert "no source tokens" in out


def test_coverage_by_origin_and_weighted_by_frequency(call, store):
    code, out, _ = call("show", "mapping", "nl")
    assert code == 0
    for text in ("Rows by origin", "Coverage weighted by frequency", "fallback-parts", "85.0 %", "10.0 %"):
        assert text in out
    found = json.loads(call("show", "mapping", "nl", "--json")[1])
    assert found["coverage"] == 0.85
    assert found["tokens"] == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "mapping"), "which?"),
        (("show", "mapping", "xx"), "fits no mapping"),
        (("show", "nl", "--token", "a"), "takes no second argument"),
    ],
)
def test_faults_are_one_message(call, store, arguments, message):
    code, _, err = call(*arguments)
    assert code == cli.EXIT_INPUT
    assert message in err.replace("\n", " ")


def test_a_run_with_several_mappings_lists_them(call, store):
    made, key = store
    add_run(made, "20310101T000000-nl", [("mapping.a", key, "mapping a"), ("mapping.b", "b" * 64, "mapping b")])
    code, _, err = call("show", "mapping", "nl")
    assert code == cli.EXIT_INPUT
    assert "fits 2 mappings" in err
    assert "mapping b" in err


def test_the_newest_run_is_taken(call, store):
    made, key = store
    add_run(made, "20290101T000000-nl", [("mapping", "c" * 64, "mapping old")])
    assert json.loads(call("show", "mapping", "nl", "--json")[1])["key"] == key
