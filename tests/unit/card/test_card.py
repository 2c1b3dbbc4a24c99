"""The model card: what the hub reads of it, and what people read."""

import dataclasses
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import ModelCard

from configs.schema import CardConfig, CardModel, CardSource, ReportNode
from tasks.card.facts import collect
from tasks.card.render import card_text
from tasks.contract import StageContext, load_stage

CONFIG = CardConfig(
    title="small-english in Esperanto by trans-tokenization",
    name="small-english-eo-trans-tokenization",
    language="eo",
    language_name="Esperanto",
    source_language="en",
    model="small-english",
    source=CardModel(name="small-english", repository="someone/small-english", license="apache-2.0"),
    recipe="trans-tokenization",
    paper="Somebody 2024, tables 9-11",
    evaluated="evaluation.2",
    sources=(
        CardSource(
            corpus="corpus", name="stories", kind="hub", dataset="someone/stories", subset="eo", license="cc0-1.0"
        ),
        CardSource(corpus="corpus", name="news", kind="file", homepage="https://example.org/news"),
        CardSource(corpus="bitext", name="subtitles", kind="file"),
    ),
    nodes=(
        ReportNode(node="corpus", stage="corpus", label="corpus eo"),
        ReportNode(node="bitext", stage="bitext", label="bitext en-eo"),
        ReportNode(node="tokenizer", stage="tokenizer", label="tokenizer eo"),
        ReportNode(node="fertility", stage="fertility", label="fertility eo"),
        ReportNode(node="mapping", stage="mapping", label="mapping en-eo"),
        ReportNode(node="training.1", stage="training", label="phase 1 embeddings"),
        ReportNode(node="training.2", stage="training", label="phase 2 outer-layers"),
        ReportNode(node="evaluation.initial", stage="evaluation", label="evaluate eo initial", model="initial"),
        ReportNode(node="evaluation.2", stage="evaluation", label="evaluate eo 2", model="phase 2 outer-layers"),
    ),
)  # fmt: skip
COMMIT = "0123456789abcdef" * 2 + "01234567"


TEXTS = {name: {"name": name, "wanted": wanted, "share": share, "tokens": tokens, "passes": passes}
         for name, wanted, share, tokens, passes in
         (("target", 0.75, 0.7503, 150_060, 1.25), ("source", 0.25, 0.2497, 49_940, 0.5))}  # fmt: skip


def write(folder, name, rows):
    pq.write_table(pa.Table.from_pylist(rows), folder / name)


def manifest(folder, config, summary=None, number=1):
    values = {"key": str(number) * 64, "config": config, "summary": summary or {}, "libraries": {"torch": "2.9.0"}}
    (folder / "manifest.json").write_text(json.dumps(values))


def write_texts(inputs):
    for node, column in (("corpus", "text"), ("bitext", "source")):
        for split, names in (("train", ["stories", "stories", "news"]), ("test", ["stories"])):
            rows = [{column: "unu", "target": "du", "corpus": name} for name in names]
            write(inputs[node], f"{split}.parquet", rows)
        write(inputs[node], "rejections.parquet", [{"corpus": "news", "reason": "too_short", "count": 5, "bytes": 9}])
    sources = [{"name": "stories", "revision": COMMIT}, {"name": "news"}]
    manifest(inputs["corpus"], {"sources": sources})


@pytest.fixture
def inputs(tmp_path):
    """The artifacts of a run, made up."""
    found = {node.node: tmp_path / node.node for node in CONFIG.nodes}
    for folder in found.values():
        folder.mkdir()
    write_texts(found)
    manifest(found["tokenizer"], {"strategy": "train", "algorithm": "unigram"})
    fertility = [{"tokenizer": name, "tokens_per_word": n, "tokens_per_byte": n / 6} for name, n in
                 (("target", 1.5), ("source", 3.25))]  # fmt: skip
    write(found["fertility"], "fertility.parquet", fertility)
    tokens = [{"target_id": n, "token": f"t{n}", "origin": origin, "frequency": 10 * n, "sources": n, "entropy": 0.5}
              for n, origin in enumerate(("random", "aligned", "aligned"))]  # fmt: skip
    write(found["mapping"], "tokens.parquet", tokens)
    manifest(found["mapping"], {"method": "trans-tokenization"})
    for number, trainable in ((1, "embeddings+head"), (2, "bottom-top")):
        folder = found[f"training.{number}"]
        steps = [{"step": n, "tokens": 100 * n, "loss": 5.0 - n, "learning_rate": 0.1, "gradient_norm": 1.0}
                 for n in (1, 2, 3)]  # fmt: skip
        write(folder, "losses.parquet", steps)
        config = {"trainable": trainable, "learning_rate": 2e-5, "schedule_steps": None, "lora": {"rank": 8}}
        config |= {"objective": ("clm", "mtp")[number - 1], "extra_heads": 1}
        summary = {"parameters_trained": 1000 * number, "parameters": 5000}
        manifest(folder, config, summary | ({"texts": TEXTS} if number == 1 else {}), number)
    scores = ((0, 2.5), (2, 1.75), (3, 1.9))
    rows = [{"step": n, "tokens": 100 * n, "bits_per_byte": value} for n, value in scores]
    write(found["training.2"], "validation.parquet", rows)
    for node, bits in (("evaluation.initial", 2.5), ("evaluation.2", 1.8125)):
        values = (("bits_per_byte", bits, "bits/byte"), ("tokens_per_word", 1.5, "tokens/word"), ("nll", 9.0, "nats"))
        head = {"split": "test", "sentences": 300}
        rows = [{"metric": name, "value": value, "unit": unit, **head} for name, value, unit in values]
        write(found[node], "metrics.parquet", rows)
        manifest(found[node], {}, {"generation_tokens_per_second": 55.0})
    return found


@pytest.fixture
def facts(inputs):
    return collect(CONFIG, inputs)


def test_the_hub_reads_language_licence_base_model_data_and_scores(facts):
    data = ModelCard(card_text(facts)).data
    assert (data.language, data.license, data.base_model) == ("eo", "apache-2.0", "someone/small-english")
    assert data.datasets == ["someone/stories"]
    assert data.tags == ["langadapt", "trans-tokenization"]
    assert (data.pipeline_tag, data.library_name) == ("text-generation", "transformers")
    assert data.model_name == "small-english-eo-trans-tokenization"
    scores = {result.metric_type: result for result in data.eval_results}
    assert scores["bits_per_byte"].metric_value == 1.8125
    assert set(scores) == {"bits_per_byte", "tokens_per_word"}  # neither totals nor the machine's speeds
    assert scores["bits_per_byte"].dataset_type == "someone/stories"
    assert scores["bits_per_byte"].dataset_split == "test"


def test_the_head_is_plain_yaml(facts):
    _, head, _ = card_text(facts).split("---\n", 2)
    (index,) = yaml.safe_load(head)["model-index"]
    assert index["results"][0]["metrics"][0]["value"] == 1.8125


def table_rows(text):
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_people_read_sources_counts_and_licences(facts):
    text = card_text(facts)
    rows = table_rows(text)
    stories = f"[stories](https://huggingface.co/datasets/someone/stories) eo at `{COMMIT[:12]}`"
    assert ["corpus eo", stories, "cc0-1.0", "2", "0", "1"] in rows
    assert ["corpus eo", "[news](https://example.org/news)", "not recorded", "1", "0", "0"] in rows
    assert ["bitext en-eo", "news", "too short", "5"] in rows
    assert "No licence is recorded for these texts: news, subtitles." in text
    assert "under `apache-2.0`" in text


def test_people_read_how_it_was_made(facts):
    text = card_text(facts)
    rows = table_rows(text)
    assert "Somebody 2024, tables 9-11" in text
    assert "100.0 % of the training text" in text
    assert ["aligned", "2", "100.0 %"] in rows
    assert ["this model's", "1.500", "0.250"] in rows
    assert ["phase 2 outer-layers", "bottom-top", "2,000 of 5,000", "3", "300", "2e-05", "4.000", "2.000"] in rows
    assert "the weights after step 2 were kept: 1.750 bits per byte" in text
    assert ["bits per byte", "2.500", "**1.812**"] in rows
    assert "- torch 2.9.0" in text
    assert "`" + "2" * 64 + "`" in text


def test_the_values_that_a_phase_reads_are_there(facts):
    blocks = card_text(facts).split("```yaml\n")[1:]
    assert yaml.safe_load(blocks[0].split("```")[0]) == {
        "learning_rate": 2e-5, "trainable": "embeddings+head", "objective": "clm",
    }  # fmt: skip
    assert yaml.safe_load(blocks[1].split("```")[0])["extra_heads"] == 1


def test_the_texts_of_a_mixture_are_there(facts):
    text = card_text(facts)
    rows = table_rows(text)
    assert ["target", "75.0 %", "150,060", "1.250"] in rows
    assert ["source", "25.0 %", "49,940", "0.500"] in rows
    assert text.count("Texts of phase") == 1


def test_what_is_not_known_is_said_and_not_made_up(facts):
    config = CONFIG.model_copy(update={"source": CardModel(name="small-english")})
    text = card_text(dataclasses.replace(facts, config=config))
    assert "The licence of the source model is not recorded" in text
    head = yaml.safe_load(text.split("---\n", 2)[1])
    assert "license" not in head
    assert "base_model" not in head


def test_every_part_may_be_missing():
    assert "phase 2 outer-layers" in card_text(collect(CONFIG, {}))
    text = card_text(collect(CONFIG.model_copy(update={"nodes": ()}), {}))
    assert "None: these are the source model's weights" in text
    assert "Scores" not in text
    assert ModelCard(text).data.eval_results is None


def test_a_language_code_is_cut_to_what_the_hub_knows(facts):
    config = CONFIG.model_copy(update={"language": "zh-Hant"})
    assert ModelCard(card_text(dataclasses.replace(facts, config=config))).data.language == "zh"


def test_names_cannot_break_the_page(facts):
    config = CONFIG.model_copy(update={"title": "a | b <script> [x](y)\n# c", "language_name": "`q` *r*"})
    text = card_text(dataclasses.replace(facts, config=config))
    assert "# a \\| b \\<script\\> \\[x\\]\\(y\\) \\# c\n" in text
    assert "\\`q\\` \\*r\\*" in text


def test_the_stage_writes_the_same_bytes_each_time(inputs, tmp_path):
    pages = []
    for name in ("one", "two"):
        out = tmp_path / name
        out.mkdir()
        result = load_stage("card").run(StageContext(CONFIG, inputs, out, tmp_path / "work"))
        pages.append((out / "README.md").read_bytes())
        assert result.summary["bits_per_byte"] == 1.8125
    assert pages[0] == pages[1]
    assert str(tmp_path).encode() not in pages[0]


def test_of_a_model_that_the_run_pretrained_no_licence_is_missing(facts):
    own = CardSource(corpus="source.corpus", name="letters", kind="file")
    source = CardModel(name="tiny")
    config = CONFIG.model_copy(update={"source": source, "sources": (*CONFIG.sources, own)})
    assert "pretrained by the same run" in card_text(dataclasses.replace(facts, config=config))


def test_a_model_whose_tokenizer_was_taken_is_named_with_its_licence(facts):
    for license, said in (("mit", "helpful is under `mit`"), (None, "The licence of helpful is not recorded")):
        helper = CardModel(name="helpful", homepage="https://example.org/helpful", license=license)
        text = card_text(dataclasses.replace(facts, config=CONFIG.model_copy(update={"helper": helper})))
        assert "[helpful](https://example.org/helpful) were taken" in text
        assert said in text
