import math
from contextlib import nullcontext

import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM

from configs.schema import EvaluationConfig, ValidationConfig
from tasks.contract import InputError, StageContext, load_stage
from tasks.training.held_out import bits_per_byte, held_out
from tasks.training.objective import Objective

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, corpus_writer):
    """Texts of many lengths, one longer than the model's 64 positions, one empty, one with a special token's name."""
    held = ["a cat", "", "the farmer sees the river near the boat " * 9, "x", "old <s>price</s>", "čaj 5 €"]
    return corpus_writer(tmp_path_factory.mktemp("c") / "c", ["the cat sees the boat"] * 40, held)


def evaluation(place, model, corpus, **settings):
    """Bits per byte of the stage `evaluation`."""
    (place / "evaluated").mkdir(parents=True)
    config = EvaluationConfig(split="validation", device="cpu", generation_tokens=0, **settings)
    inputs = {"model": model, "corpus": corpus, "reference_tokenizer": model}
    load_stage("evaluation").run(StageContext(config, inputs, place / "evaluated", place / "evaluated"))
    table = pq.read_table(place / "evaluated" / "metrics.parquet").to_pydict()
    return dict(zip(table["metric"], table["value"], strict=True))["bits_per_byte"]


@pytest.mark.parametrize("tokens", [1, 100, 10_000])
def test_the_same_figure_as_the_evaluation(tmp_path, model_folder, corpus, tokens):
    objective = Objective(AutoModelForCausalLM.from_pretrained(model_folder), extra_heads=1).train()
    text = held_out(corpus, model_folder, 100, 64)
    assert {len(window.ids) for window in text.windows} >= {64}
    value = bits_per_byte(objective, text, tokens, CPU, nullcontext())
    assert value == pytest.approx(evaluation(tmp_path, model_folder, corpus), rel=1e-6)
    assert all(module.training for module in objective.modules()), "attention dropout was off for the score only"


@pytest.mark.parametrize("trainable", ["all", "lora"])
def test_the_model_saved_has_the_score_told(tmp_path, run_training, model_folder, make_phase, corpus, trainable):
    phase = make_phase(
        trainable=trainable, validation=ValidationConfig(every=3, sentences=5), packing="documents", steps=7
    )
    done = run_training(tmp_path, model_folder, phase, corpus=corpus)
    scores = pq.read_table(done.out / "validation.parquet").to_pydict()
    assert scores["step"] == [0, 3, 6, 7]
    assert scores["tokens"][0] == 0
    losses = pq.read_table(done.out / "losses.parquet")
    assert scores["tokens"][1:] == [losses["tokens"][step - 1].as_py() for step in (3, 6, 7)]
    assert min(scores["bits_per_byte"]) == done.result.summary["bits_per_byte"]
    measured = evaluation(tmp_path, done.out, corpus, max_sentences=5)
    assert measured == pytest.approx(done.result.summary["bits_per_byte"], rel=1e-5)


def test_by_hand(tmp_path, corpus_writer, model_folder, make_llama):
    """A model that finds all 304 tokens alike needs log2 304 bits a token: two texts of 3 bytes, 3 tokens each."""
    corpus = corpus_writer(tmp_path / "c", ["a"], ["QXZ", "ZXQ", "not read"])
    model = make_llama()
    torch.nn.init.zeros_(model.lm_head.weight)
    value = bits_per_byte(Objective(model), held_out(corpus, model_folder, 2, None), 8, CPU, nullcontext())
    assert value == pytest.approx(math.log2(304), rel=1e-6)


def test_nothing_to_score(tmp_path, corpus_writer, model_folder):
    corpus = corpus_writer(tmp_path / "c", ["a"], ["", "a cat"])
    with pytest.raises(InputError, match="the first 1 texts of the validation split have nothing to score"):
        held_out(corpus, model_folder, 1, 64)
    (corpus / "validation.parquet").unlink()
    with pytest.raises(InputError, match=r"no validation\.parquet"):
        held_out(corpus, model_folder, 1, 64)
