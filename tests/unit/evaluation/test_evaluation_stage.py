import csv
import hashlib
import io
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import zstandard

from configs.schema import EvaluationConfig, key_fields
from tasks.contract import InputError, StageContext, load_stage

TEXTS = ["the cat sat on the mat .", "a dog ran .", "the bird sat on the cat ."]


def evaluate(model: Path, corpus: Path, out: Path, reference: Path | None = None, **config):
    out.mkdir(parents=True)
    config = {"generation_tokens": 4, "threads": 1, "device": "cpu", **config}
    inputs = {"model": model, "corpus": corpus, "reference_tokenizer": reference or model}
    stage = load_stage("evaluation")
    return stage.run(StageContext(EvaluationConfig(**config), inputs, out, out / "work"))


def values(out: Path) -> dict[str, float]:
    table = pq.read_table(out / "metrics.parquet")
    return dict(zip(table["metric"].to_pylist(), table["value"].to_pylist(), strict=True))


def test_metrics_equal_a_slow_evaluation(model_folder, make_corpus, make_model, make_tokenizer, tmp_path):
    result = evaluate(model_folder, make_corpus(TEXTS), tmp_path / "out", window=8)
    model, tokenizer = make_model(), make_tokenizer()
    nll, tokens = 0.0, 0
    for text in TEXTS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens += len(ids)
        for start in range(0, len(ids), 7):
            window = [1, *ids[start : start + 7]]
            with torch.no_grad():
                logits = model(torch.tensor([window])).logits[0]
            nll += float(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(window[1:]), reduction="sum"))
    found = values(tmp_path / "out")
    assert found["nll"] == pytest.approx(nll, rel=1e-5)
    assert found["tokens"] == found["native_tokens"] == tokens == 18
    assert found["bytes"] == sum(len(text) for text in TEXTS)
    assert found["bits_per_byte"] == pytest.approx(nll / math.log(2) / found["bytes"], rel=1e-5)
    assert found["unknown_tokens"] == 1
    assert found["words"] == 15
    assert result.summary["bits_per_byte"] == found["bits_per_byte"]
    assert {row["metric"] for row in result.measurements} >= {"generation_bytes_per_second", "scoring_bytes_per_second"}


def test_table_has_its_schema_and_no_times(model_folder, make_corpus, tmp_path):
    evaluate(model_folder, make_corpus(TEXTS, "validation"), tmp_path / "out", split="validation", max_sentences=2)
    table = pq.read_table(tmp_path / "out" / "metrics.parquet")
    assert table.schema.names == ["metric", "value", "unit", "split", "sentences"]
    assert table["metric"].to_pylist() == sorted(table["metric"].to_pylist())
    assert set(table["split"].to_pylist()) == {"validation"}
    assert set(table["sentences"].to_pylist()) == {2}
    assert not [name for name in table["metric"].to_pylist() if "second" in name]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["metrics.parquet"]


def test_same_inputs_give_the_same_bytes(model_folder, make_corpus, tmp_path):
    corpus = make_corpus(TEXTS)
    digests = set()
    for name in ("first", "second"):
        evaluate(model_folder, corpus, tmp_path / name)
        digests.add(hashlib.sha256((tmp_path / name / "metrics.parquet").read_bytes()).hexdigest())
    assert len(digests) == 1


def test_batch_size_is_in_the_key_and_changes_no_digit_that_matters(model_folder, make_corpus, tmp_path):
    assert "batch_size" in key_fields(EvaluationConfig())
    corpus = make_corpus(TEXTS)
    for batch_size in (1, 3):
        evaluate(model_folder, corpus, tmp_path / str(batch_size), batch_size=batch_size)
    assert values(tmp_path / "1") == pytest.approx(values(tmp_path / "3"), rel=1e-6)


@pytest.mark.parametrize(("bos", "eos", "unscored"), [("<s>", None, 0), (None, "</s>", 0), (None, None, 3)])
def test_prefix_is_bos_else_eos_else_none(make_model, make_tokenizer, make_corpus, tmp_path, bos, eos, unscored):
    folder = tmp_path / "model"
    make_model().save_pretrained(folder)
    make_tokenizer(bos, eos).save_pretrained(folder)
    result = evaluate(folder, make_corpus(TEXTS), tmp_path / "out")
    assert values(tmp_path / "out")["unscored_tokens"] == unscored
    assert result.summary.get("unscored_tokens", 0) == unscored


def test_window_longer_than_the_model_is_shortened(make_model, make_tokenizer, make_corpus, tmp_path):
    folder = tmp_path / "model"
    make_model(positions=8).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    corpus = make_corpus(["the cat sat on the mat . " * 3])
    evaluate(folder, corpus, tmp_path / "long", window=512)
    evaluate(folder, corpus, tmp_path / "short", window=8)
    assert values(tmp_path / "long") == values(tmp_path / "short")


def test_bfloat16_weights_are_widened(make_model, make_tokenizer, make_corpus, tmp_path):
    narrow = make_model().to(torch.bfloat16)
    for name, model in (("narrow", narrow), ("wide", narrow.to(torch.float32))):
        model.save_pretrained(tmp_path / name)
        make_tokenizer().save_pretrained(tmp_path / name)
        evaluate(tmp_path / name, make_corpus(TEXTS), tmp_path / f"{name}-out")
    assert values(tmp_path / "narrow-out") == values(tmp_path / "wide-out")


def test_tokenizer_of_another_model_is_refused(make_model, make_tokenizer, make_corpus, tmp_path):
    make_model(vocabulary=8).save_pretrained(tmp_path / "model")
    make_tokenizer().save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match=r"token id 11, but the model's embeddings have 8 rows"):
        evaluate(tmp_path / "model", make_corpus(TEXTS), tmp_path / "out")


@pytest.mark.parametrize("split", ["test", "validation"])
def test_empty_or_missing_split_is_refused(model_folder, make_corpus, tmp_path, split):
    with pytest.raises(InputError, match=f"{split}"):
        evaluate(model_folder, make_corpus([], "test"), tmp_path / "out", split=split)


def test_folder_without_tokenizer_or_weights_is_refused(make_model, make_corpus, model_folder, tmp_path):
    make_model().save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match="bare has no tokenizer"):
        evaluate(tmp_path / "bare", make_corpus(TEXTS), tmp_path / "out")
    (tmp_path / "empty").mkdir()
    for file in model_folder.iterdir():
        if "token" in file.name:
            (tmp_path / "empty" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match=r"needs config\.json and safetensors"):
        evaluate(tmp_path / "empty", make_corpus(TEXTS), tmp_path / "out2")


@pytest.mark.shared_data
@pytest.mark.parametrize(("column", "bits", "fertility"), [("src", 1.90, 1.62), ("tgt", 4.83, 3.46)])
def test_real_model_on_real_text(shared_data, make_corpus, tmp_path, column, bits, fertility):
    model = shared_data.parent / "models" / "tiny-english-llama"
    if not model.is_dir():
        pytest.skip(f"no model at {model}")
    packed = (shared_data / "parallel/en-sw/lafand-test.NC.tsv.zst").read_bytes()
    text = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(packed), encoding="utf-8")
    rows = csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
    texts = [row[column] for row, _ in zip(rows, range(300), strict=False)]
    evaluate(model, make_corpus(texts), tmp_path / "out", generation_tokens=0, threads=0)
    found = values(tmp_path / "out")
    assert found["bits_per_byte"] == pytest.approx(bits, abs=0.015)
    # The published figure is over words between spaces; here "don't" is two words.
    assert found["tokens"] / sum(len(text.split()) for text in texts) == pytest.approx(fertility, abs=0.01)
