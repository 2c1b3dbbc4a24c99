"""The chain end to end: what is cached, what runs again, and what comes out."""

import json
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from configs.load import available
from storage.store import Store

pytestmark = pytest.mark.e2e

BEFORE_TRAINING = {
    "sample", "source.corpus", "source.tokenizer", "source.pretraining", "corpus", "bitext", "tokenizer", "fertility",
    "alignment", "counts", "mapping", "initial-model", "embeddings", "evaluation.source", "evaluation.initial",
}  # fmt: skip
TRAINED = {"training.1", "training.2", "evaluation.1", "evaluation.2", "report", "card"}


def cached(statuses):
    return {node for node, status in statuses.items() if status == "Cached"}


def test_every_stage_runs_once(finished):
    _, result = finished
    statuses = {outcome.node: outcome.status for outcome in result.outcomes}
    assert set(statuses) == BEFORE_TRAINING | TRAINED
    assert set(statuses.values()) == {"Completed"}


def test_a_second_run_takes_everything_from_the_store_and_starts_no_process(finished, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError(f"a process was started: {arguments}")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    chain, _ = finished
    assert set(chain.statuses().values()) == {"Cached"}


def test_a_changed_learning_rate_runs_training_and_what_follows(copied):
    statuses = copied.statuses("training.learning_rate=0.0005")
    assert cached(statuses) == BEFORE_TRAINING


def test_a_changed_vocabulary_keeps_the_corpora(copied):
    statuses = copied.statuses("tokenizer.vocab_size=580", until="alignment")
    assert cached(statuses) == {"sample", "source.corpus", "source.tokenizer", "corpus", "bitext"}


def test_rerunning_a_stage_whose_bytes_do_not_change_reruns_nothing_else(copied):
    statuses = copied.statuses(rerun=["alignment"])
    assert {node for node, status in statuses.items() if status != "Cached"} == {"alignment"}
    assert statuses["alignment"] == "Rebuilt"


def test_another_recipe_shares_what_it_can(copied):
    statuses = copied.statuses(recipe="mean", until="initial-model")
    assert cached(statuses) >= {"sample", "source.pretraining", "corpus", "tokenizer"}
    assert "alignment" not in statuses
    assert set(copied.statuses(recipe="random", until="mapping").values()) == {"Cached", "Completed"}


FURTHER = """
further_bitexts:
  fr:
    sources: [{kind: sample, name: other, side: both, sentences: 500, seed: 3}]
    validation_share: 0.02
    test_share: 0.03
"""


def test_a_further_source_language_is_aligned_beside_the_first_and_merged(copied, tmp_path, monkeypatch):
    (tmp_path / "own" / "languages").mkdir(parents=True)
    text = available("languages")["eo"].read_text(encoding="utf-8")
    (tmp_path / "own" / "languages" / "eo.yaml").write_text(text + FURTHER, encoding="utf-8")
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path / "own"))
    merged = "mapping.trans_tokenization.source_languages={en: 1, fr: 3}"
    result = copied.run(merged, until="mapping")
    statuses = {outcome.node: outcome.status for outcome in result.outcomes}
    assert {node for node, status in statuses.items() if status != "Cached"} == {
        "sample.2", "bitext.fr", "alignment.fr", "counts.fr", "mapping",
    }  # fmt: skip
    folder = Store(str(copied.store)).open(result.outcomes[-1].artifact)
    entries = pq.read_table(folder / "mapping.parquet")
    sums = entries.group_by("target_id").aggregate([("weight", "sum")])["weight_sum"].to_pylist()
    assert sums == pytest.approx([1.0] * len(sums))


def test_until_ends_early(copied):
    statuses = copied.statuses(until="tokenizer")
    assert "tokenizer" in statuses
    assert "alignment" not in statuses


def test_the_plan_says_why(copied):
    plan = {item.node.id: item for item in copied.prepare("tokenizer.vocab_size=580").plan}
    assert plan["corpus"].status == "cached"
    assert plan["tokenizer"].status == "run"
    assert any("vocab_size: 600 -> 580" in reason for reason in plan["tokenizer"].reasons)
    assert plan["alignment"].status == "depends"


@pytest.mark.parametrize("fault", ["delete", "flip", "truncate"])
def test_damage_in_the_store_is_found_said_and_mended(copied, fault, caplog):
    artifact = next(
        outcome.artifact for outcome in copied.run(until="tokenizer").outcomes if outcome.node == "tokenizer"
    )
    folder = Store(str(copied.store)).open(artifact)
    path = folder / ("manifest.json" if fault == "truncate" else "tokenizer.json")
    path.chmod(0o644)
    folder.chmod(0o755)
    content = path.read_bytes()
    if fault == "delete":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if fault == "truncate" else bytes([content[0] ^ 1]) + content[1:])
    statuses = copied.statuses()
    assert {node for node, status in statuses.items() if status != "Cached"} == {"tokenizer"}
    assert "damaged and will be built again" in caplog.text
    assert set(copied.statuses().values()) == {"Cached"}


def test_the_model_loads_with_plain_transformers(finished):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    chain, result = finished
    artifacts = {outcome.node: outcome.artifact for outcome in result.outcomes}
    folder = Store(str(chain.store)).open(artifacts["training.2"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.vocab_size == len(tokenizer) == 600
    ids = tokenizer("La kato dormas.", return_tensors="pt")
    text = tokenizer.decode(model.generate(**ids, max_new_tokens=3)[0], skip_special_tokens=True)
    assert text.startswith("La kato dormas.")
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert not list(folder.glob("*.bin"))


def test_the_report_is_one_file_that_loads_nothing(finished):
    _, result = finished
    page = Path(result.report).read_text(encoding="utf-8")
    links = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, attrs):
            links.extend(value for name, value in attrs if name in ("src", "href") and value)

    Links().feed(page)
    assert all(link.startswith(("#", "data:")) for link in links)
    for text in ("Esperanto", "bits_per_byte", "Completed"):
        assert text in page


def test_results_hold_every_model(finished):
    _, result = finished
    bits = {row["model"]: row["value"] for row in result.results if row["metric"] == "bits_per_byte"}
    assert len(bits) == 4
    assert all(0 < value < 20 for value in bits.values())


def test_the_record_of_a_run_names_its_artifacts(finished):
    chain, result = finished
    record = json.loads((chain.store / "runs" / result.run_id / "run.json").read_text())
    assert record["status"] == "completed"
    assert len(record["artifacts"]) == len(result.outcomes)


def test_measured_speeds_are_kept_outside_the_artifacts(finished):
    chain, result = finished
    artifact = next(outcome.artifact for outcome in result.outcomes if outcome.node == "training.1")
    path = Store(str(chain.store)).measurements(artifact)
    assert path is not None
    assert "tokens_per_second" in pq.read_schema(path).names


def test_a_store_behind_a_url(tmp_path, monkeypatch, make_chain):
    chain = make_chain(f"local://{tmp_path / 'remote'}")
    for cache, expected in (("one", "Completed"), ("one", "Cached"), ("two", "Cached")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))  # another cache: another machine
        assert set(chain.statuses(until="tokenizer").values()) == {expected}
    assert list((tmp_path / "remote").rglob("tokenizer.json"))
