"""Verification of initial models: what it finds, and what it lets pass."""

import json

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from configs.schema import MappingConfig
from tasks.contract import InputError, StageContext, load_stage
from tasks.embeddings import initial_model
from tasks.embeddings.canonical import vocabulary_of
from tasks.embeddings.new_table import NewRows, new_table
from tasks.embeddings.reachable import unreachable_tokens
from tasks.embeddings.row_groups import first_equal_mapping_row, first_equal_row
from tasks.embeddings.token_mapping import TokenMapping
from tasks.embeddings.verify_forward import check_logits
from tasks.embeddings.verify_tables import TableCheck
from tasks.embeddings.verify_tokenizer import (
    check_fertility,
    check_reachable,
    check_round_trip,
    check_rows,
    check_same,
)

NONE = np.zeros(0, np.int64)


def found(folder):
    return {check["name"]: check for check in json.loads((folder / "verification.json").read_text())["checks"]}


@pytest.mark.parametrize(("family", "tied"), [("llama", False), ("llama", True), ("phi", False)])
def test_every_check_is_made_and_written(model_inputs, build, tmp_path, family, tied):
    result = build.run(model_inputs(family=family, tied=tied), tmp_path / "out")
    checks = found(tmp_path / "out")
    table_checks = {
        "finite numbers in the", "zero rows of the", "tokens kept unchanged in the", "mapping applied to the",
        "duplicate rows of the", "row lengths of the",
    }  # fmt: skip
    tables = ["input embeddings"] + ([] if tied else ["LM head"])
    assert set(checks) == {f"{check} {table}" for check in table_checks for table in tables} | {
        "tokenizer in the model's folder", "rows for all tokens", "reachable tokens", "round trip", "fertility",
        "forward pass", "generation", "logits of new tokens",
    } | {
        f"{check} LM head's bias" for check in table_checks if family == "phi"
        and not check.startswith(("zero", "duplicate", "row lengths"))
    }  # fmt: skip
    assert {check["status"] for check in checks.values()} <= {"passed", "warning"}
    summary = result.summary["verification"]
    assert summary["passed"] + summary["warning"] == len(checks)
    assert len(summary["warnings"]) == summary["warning"]
    assert set(summary["warnings"]) == {name for name, check in checks.items() if check["status"] == "warning"}
    assert set(summary["measured"]["generation"]) == {"prompt", "text"}
    assert summary["measured"]["logits of new tokens"]["source_deviation"] > 0


def test_without_held_out_text(model_inputs, build, tmp_path):
    inputs = {name: path for name, path in model_inputs().items() if name != "corpus"}
    build.run(inputs, tmp_path / "out")
    skipped = {name for name, check in found(tmp_path / "out").items() if check["status"] == "skipped"}
    assert skipped == {"round trip", "fertility"}


DAMAGES = {
    "not a number": (lambda t: t[70].fill_(float("nan")), r"finite numbers in the input embeddings: 1 rows hold NaN"),
    "zero": (lambda t: t[70].fill_(0), r"zero rows of the input embeddings: 1 rows are zero"),
    "changed copy": (lambda t: t[7, 3].add_(1e-6), r"tokens kept unchanged in the input embeddings: 1 rows differ"),
    "wrong mean": (lambda t: t[70].mul_(1.01), r"mapping applied to the input embeddings: 1 of 400 rows are not"),
    "duplicate": (lambda t: t[70].copy_(t[60]), r"duplicate rows of the input embeddings: 1 rows equal another row"),
    "long": (lambda t: t[70].mul_(1e4), r"row lengths of the input embeddings: 1 rows are more than 10 times"),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_a_wrong_row_stops_the_run_and_is_named(model_inputs, build, tmp_path, monkeypatch, tokenizers, damage):
    change, message = DAMAGES[damage]
    right = initial_model.new_table

    def wrong(name, *arguments):
        table = right(name, *arguments)
        if name == "input embeddings":
            change(table)
        return table

    monkeypatch.setattr(initial_model, "new_table", wrong)
    token = PreTrainedTokenizerFast(tokenizer_file=str(tokenizers["dutch"] / "tokenizer.json"))
    row = 7 if damage == "changed copy" else 70
    with pytest.raises(InputError, match=rf"verification failed: .*{message}") as caught:
        build.run(model_inputs(), tmp_path / "out")
    assert f"{row} {token.convert_ids_to_tokens(row)!r}" in str(caught.value)


def table_check(mapping, old, norms="keep", dense_ids=NONE, dense=None, change=None, dtype=torch.float32):
    rows = NewRows(mapping, 0, dense_ids, dense)
    old = torch.from_numpy(np.asarray(old, np.float32)).to(dtype)
    new = new_table("LM head", old, [rows], norms)
    if change is not None:
        change(new)
    return TableCheck("LM head", new, old, rows, norms)


def mapping_of(*rows, size):
    entries = [(t, s, w) for t, row in enumerate(rows) for s, w in row.items()]
    t, s, w = (np.array(values) for values in zip(*entries, strict=True))
    return TokenMapping.from_coo(t, s, w.astype(float), (len(rows), size))


def vectors(count, width=8, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width))


def test_duplicates_explained_by_equal_mapping_rows():
    mapping = mapping_of({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}, {2: 1}, {2: 1}, {0: 1}, size=3)
    check = table_check(mapping, vectors(3)).duplicates()
    assert check.status == "warning"
    assert check.rows.tolist() == [1, 3]
    assert check.figures == {
        "rows": 2, "with equal mapping rows": 2, "equal in this number format": 0, "unexplained": 0,
    }  # fmt: skip


def test_duplicates_explained_by_equal_source_rows_and_by_rounding():
    old = vectors(4)
    old[3] = old[0]
    equal = table_check(mapping_of({0: 1}, {3: 1}, size=4), old).duplicates()
    assert equal.figures["with equal mapping rows"] == 1
    rounded = table_check(
        mapping_of({0: 1}, {0: 0.9999, 1: 0.0001}, size=4), np.sign(old) * 1.5, dtype=torch.bfloat16
    ).duplicates()
    assert (rounded.status, rounded.figures["equal in this number format"]) == ("warning", 1)


def test_a_shared_token_that_is_mixed_is_refused():
    names = ("shared", "mean")
    entries = (np.array([0, 1, 1, 2, 2]), np.array([0, 1, 2, 0, 1]), np.ones(5))
    mapping = TokenMapping.from_coo(*entries, (3, 3), np.array([0, 0, 1], np.uint8), names)
    check = table_check(mapping, vectors(3)).copies()
    assert (check.status, check.rows.tolist()) == ("failed", [1])
    assert "1 tokens that both vocabularies have" in check.message


def test_drawn_and_dense_rows_that_are_equal():
    mapping = TokenMapping.from_coo(np.array([0]), np.array([0]), np.ones(1), (4, 3))
    dense = vectors(2, seed=9).astype(np.float32)
    dense[1] = dense[0]
    explained = table_check(mapping, vectors(3), dense_ids=np.array([1, 2]), dense=dense).duplicates()
    assert (explained.status, explained.figures["equal in this number format"]) == ("warning", 1)
    drawn = table_check(mapping, vectors(3), change=lambda t: t[3].copy_(t[2])).duplicates()
    assert (drawn.status, drawn.rows.tolist()) == ("failed", [3])


def test_zero_rows_of_zero_sources_are_told_apart():
    old = vectors(3)
    old[1] = 0
    mapping = mapping_of({0: 1}, {1: 1}, {0: 0.5, 2: 0.5}, size=3)
    check = table_check(mapping, old).zero()
    assert (check.status, check.rows.tolist()) == ("warning", [1])
    opposed = np.stack([old[0], -old[0]])
    cancelled = table_check(mapping_of({0: 0.5, 1: 0.5}, size=2), opposed).zero()
    assert (cancelled.status, cancelled.rows.tolist()) == ("failed", [0])


def test_short_rows_are_a_warning_and_matching_cures_it():
    old = vectors(200, 64)
    rows = [dict.fromkeys(range(start, start + 20), 1 / 20) for start in range(0, 180, 20)]
    mapping = mapping_of({0: 1}, *rows, size=200)
    check = table_check(mapping, old).lengths()
    assert check.status == "warning"
    assert check.rows.tolist() == list(range(1, 10))
    assert "norms=match" in check.message
    matched = table_check(mapping, old, norms="match")
    assert {c.status for c in matched.checks()} == {"passed"}


def test_equal_rows_are_found_by_their_bytes():
    table = torch.from_numpy(vectors(3000, 5)).to(torch.bfloat16)
    table[2999], table[17], table[1500] = table[3], table[3], table[1200]
    first = first_equal_row(table)
    expected = np.arange(3000)
    expected[[2999, 17, 1500]] = [3, 3, 1200]
    assert first.tolist() == expected.tolist()
    mapping = mapping_of({0: 0.5, 1: 0.5}, {2: 0.5, 1: 0.5}, {0: 0.4, 1: 0.6}, {1: 0.5, 0: 0.5}, {2: 1}, {0: 1}, size=3)
    assert first_equal_mapping_row(mapping.rows, np.array([0, 1, 0])).tolist() == [0, 0, 2, 0, 4, 4]


def logits_check(new, old, hidden=None):
    hidden = torch.from_numpy(vectors(50, 8, 5)).float() if hidden is None else hidden
    tables = [torch.from_numpy(table).float() for table in (new, old)]
    return check_logits(hidden, (tables[0], None), np.arange(len(new)), (tables[1], None))


def test_logits_of_new_tokens():
    old, new = vectors(500, seed=1), vectors(300, seed=2)
    check = logits_check(new, old)
    hidden = torch.from_numpy(vectors(50, 8, 5)).float()
    logits = (hidden @ torch.from_numpy(new).float().T).double()
    assert check.status == "passed"
    assert check.measured["mean"] == pytest.approx(float(logits.mean()), abs=1e-6)
    assert check.measured["deviation"] == pytest.approx(float(logits.std(correction=0)), abs=1e-5)
    wide = logits_check(new * 3, old)
    assert wide.status == "warning"
    assert "is 3" in wide.message
    assert "their mean" not in wide.message
    assert logits_check(new * 20, old).status == "failed"
    loud = new.copy()
    loud[7] = 1000 * hidden.mean(dim=0).numpy()
    check = logits_check(loud, old)
    assert check.rows.tolist() == [7]
    assert check.status in ("warning", "failed")


def tokenizer_of(vocab, merges, digits=False):
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(vocab)}, merges=merges))
    split = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    backend.pre_tokenizer = pre_tokenizers.Sequence([*split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    backend.decoder = decoders.ByteLevel()
    return backend


def test_unreachable_tokens():
    """'abc' has no merge that makes it, '12' is cut by the pre-tokenizer; the added token is found in text."""
    backend = tokenizer_of(["a", "b", "c", "ab", "abc", "1", "2", "12", "Ġ", "Ġa"],
                           [("a", "b"), ("1", "2"), ("Ġ", "a")], digits=True)  # fmt: skip
    backend.add_tokens([AddedToken("a b c", normalized=False)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    assert unreachable_tokens(backend, vocabulary_of(tokenizer)).tolist() == [4, 7]
    check = check_reachable(tokenizer)
    assert (check.status, check.rows.tolist()) == ("failed", [4, 7])  # 2 of 11
    assert "at least 90% must be reachable" in check.message


def test_trained_tokenizers_reach_every_token(tokenizers):
    for name in ("english", "dutch", "russian", "english-bytes", "russian-bytes"):
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tokenizers[name] / "tokenizer.json"))
        assert check_reachable(tokenizer).status == "passed", name


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["gpt2-50k", "gpt-neox-20b", "focus-sw-bpe-50k", "focus-sw-xlmr-unigram-50k"])
def test_real_tokenizers_reach_nearly_every_token(shared_data, name):
    path = shared_data / "tokenizers" / name / "tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path))
    assert check_reachable(tokenizer).figures["reachable share"] > 0.999


def test_the_tokenizer_in_the_models_folder(tokenizers):
    english, dutch = (
        PreTrainedTokenizerFast(tokenizer_file=str(tokenizers[name] / "tokenizer.json"), bos_token="<s>")
        for name in ("english", "dutch")
    )
    assert check_same(dutch, dutch, ["Het huis."]).status == "passed"
    check = check_same(english, dutch, ["The house.", ""])
    assert check.status == "failed"
    assert check.message.startswith("it has other tokens; 1 of 2 texts get other ids, for instance 'The house.'; add")


def test_a_wrong_bias_is_found():
    mapping = mapping_of({0: 1}, {0: 0.5, 1: 0.5}, size=2)
    rows, old = NewRows(mapping, 0, NONE), torch.tensor([1.0, 3.0])
    for place, status in (
        (None, ["passed"] * 3),
        (0, ["passed", "failed", "failed"]),
        (1, ["passed"] * 2 + ["failed"]),
    ):
        new = new_table("LM head's bias", old, [rows])
        if place is not None:
            new[place] += 0.5
        checks = TableCheck("LM head's bias", new[:, None], old[:, None], rows, "keep").value_checks()
        assert [check.status for check in checks] == status


def test_rows_round_trip_and_fertility(tokenizers):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tokenizers["dutch"] / "tokenizer.json"))
    assert check_rows(tokenizer, 400).status == "passed"
    assert check_rows(tokenizer, 398).rows.tolist() == [398, 399]
    texts = ["Het huis.", "пятнадцать 🏡", "  two  spaces "]
    assert check_round_trip(tokenizer, texts).status == "passed"
    lossy = PreTrainedTokenizerFast(tokenizer_object=tokenizer_of(["a", "b"], []))
    check = check_round_trip(lossy, ["ab", "ba", "aXb"])
    assert (check.status, check.figures["changed"]) == ("warning", 1)
    assert "text 2 at character 1: 'aXb' becomes 'ab'" in check.message
    assert check_round_trip(lossy, ["XY", "ba", "aXb"]).status == "failed"
    keys = ("tokens_per_word", "tokens_per_byte", "continued_word_share")
    before, after = dict.fromkeys(keys, 1.0), dict.fromkeys(keys, 2.0)
    assert check_fertility(before, after).status == "warning"
    assert check_fertility(after, before).status == "passed"
    assert check_fertility(None, before).status == "passed"
    assert check_fertility(None, None).status == "skipped"


@pytest.mark.parametrize("method", ["mean", "random"])
@pytest.mark.parametrize("norms", ["keep", "match"])
def test_models_of_the_mapping_stage_pass(model_inputs, build, tokenizers, tmp_path, method, norms):
    inputs = model_inputs(rows=384)  # four rows more than the source tokenizer has tokens
    folders = {"tokenizer": tokenizers["dutch"], "source_tokenizer": tokenizers["english"]}
    out = tmp_path / "mapped"
    out.mkdir()
    config = MappingConfig(method=method)
    load_stage("mapping").run(StageContext(config=config, inputs=folders, out=out, work=tmp_path))
    result = build.run({**inputs, "mapping": out}, tmp_path / "out", norms=norms, pad_to_multiple=64)
    assert result.summary["vocab_size"] == 448
    assert (result.summary["drawn_rows"] > 100) is (method == "random")
