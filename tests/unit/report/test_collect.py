import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.report.collect import collect
from tasks.report.data import ReportData, as_dict, from_dict, to_json


@pytest.fixture
def data(report_config, artifacts) -> ReportData:
    return collect(report_config, artifacts)


def test_results_are_the_metric_tables(data, artifacts):
    shown = {(row["node"], row["metric"]): row["value"] for row in [*data.results, *data.totals]}
    for which in ("source", "initial", "1", "2"):
        table = pq.read_table(artifacts[f"evaluation.{which}"] / "metrics.parquet")
        for metric, value in zip(table["metric"].to_pylist(), table["value"].to_pylist(), strict=True):
            assert shown[f"evaluation.{which}", metric] == value
    models = list(dict.fromkeys(row["model"] for row in data.results))
    assert models == ["source", "initial", "phase 1 (embeddings)", "phase 2 (outer-layers)"]


def test_headline_goes_from_source_to_final(data):
    bits = next(item for item in data.headline if item["metric"] == "bits_per_byte")
    assert [value["value"] for value in bits["values"]] == [4.83, 2.51, 1.8125]
    words = next(item for item in data.headline if item["metric"] == "tokens_per_word")
    assert [value["value"] for value in words["values"]] == [3.43, 1.5]


def test_corpora_count_text_and_rejections(data):
    by_node = {row["node"]: row for row in data.corpora}
    assert set(by_node) == {"source.corpus", "corpus", "bitext"}
    kept = by_node["bitext"]["kept"]
    assert [(row["split"], row["texts"]) for row in kept] == [("train", 3), ("validation", 3), ("test", 3)]
    one_side = [by_node[node]["kept"][0]["bytes"] for node in ("source.corpus", "corpus")]
    assert kept[0]["bytes"] == sum(one_side)
    rejected = by_node["corpus"]["rejections"]
    assert [(row["reason"], row["count"]) for row in rejected] == [("duplicate", 1234), ("too_short", 12)]
    assert [example["line"] for example in rejected[0]["examples"]] == [15, 19]


def test_mapping_by_hand(data):
    assert data.mapping["size"] == 10
    frequencies = [1000 - 90 * n for n in range(10)]
    assert data.mapping["coverage"] == pytest.approx(sum(frequencies[:7]) / sum(frequencies))
    aligned = data.mapping["origins"][0]
    assert aligned["origin"] == "aligned"
    assert aligned["rows"] == 5
    assert aligned["frequency_share"] == pytest.approx(sum(frequencies[:5]) / sum(frequencies))
    assert sum(row["rows"] for row in data.mapping["entropy"]) == 9
    example = data.mapping["examples"][0]["tokens"][0]
    assert example["token"] == "▁instru"
    assert [source["weight"] for source in example["sources"]] == [0.6, 0.3, 0.1]


def test_tokens_are_named_by_the_mapping(data, report_config, artifacts):
    """The text that the mapping gives, not the tokenizer's own string: no tokenizer is needed."""
    example = data.mapping["examples"][0]["tokens"][0]
    assert [source["token"] for source in example["sources"]] == ["▁src30", "▁src31", "▁src32"]
    inputs = {node: folder for node, folder in artifacts.items() if "tokenizer" not in node}
    assert collect(report_config, inputs).mapping == data.mapping
    (artifacts["mapping"] / "source_tokens.parquet").unlink()
    example = collect(report_config, artifacts).mapping["examples"][0]["tokens"][0]
    assert [source["token"] for source in example["sources"]] == ["#30", "#31", "#32"]


def test_sentences_are_cut_by_the_tokenizers_there_are(report_config, artifacts):
    inputs = {node: folder for node, folder in artifacts.items() if not node.startswith("source.")}
    assert all(row["source"] is None and row["target"] for row in collect(report_config, inputs).segmentation)
    named = collect(report_config, inputs | {"source_tokenizer": artifacts["source.tokenizer"]})
    assert all(row["source"] and row["target"] for row in named.segmentation)


def test_losses_have_every_phase(data):
    assert [(row["node"], row["steps"]) for row in data.losses] == [
        ("source.pretraining", 250), ("training.1", 450), ("training.2", 300),
    ]  # fmt: skip
    assert all(len(row["points"]) <= 200 for row in data.losses)
    assert data.losses[1]["detail"] == "embeddings+head"
    assert data.losses[1]["points"][-1]["tokens"] == data.losses[1]["tokens"] == 450 * 512
    assert data.losses[1]["best"] is None
    assert data.losses[1]["speed"] == data.losses[1]["validation"] == []


def test_scores_of_the_validation_text_and_the_best_of_them(data):
    row = data.losses[2]
    assert [point["bits_per_byte"] for point in row["validation"]] == [2.5, 1.75, 1.9]
    assert row["best"] == {"step": 100, "bits_per_byte": 1.75}


def test_measured_speeds_are_placed_by_the_tokens_seen(report_config, artifacts, measurements):
    row = collect(report_config, artifacts, measurements).losses[1]
    assert [point["tokens"] for point in row["speed"]] == [100 * 512, 200 * 512, 300 * 512]
    assert [point["tokens_per_second"] for point in row["speed"]] == [1100.0, 1200.0, 1300.0]
    assert (row["tokens_per_second"], row["peak_memory_bytes"]) == (1200.0, 300 * 2**20)


def test_alignment_and_fertility(data):
    assert len(data.alignment["iterations"]) == 10
    assert {row["name"]: row["count"] for row in data.alignment["sizes"]}["unit pairs"] == 1500
    assert [row["tokenizer"] for row in data.fertility] == ["source", "target"]


def test_stages_come_from_the_manifests(data):
    assert data.stages[0]["node"] == "sample"
    assert all(len(row["key"]) == 64 and row["seconds"] > 0 for row in data.stages)
    assert data.libraries == {"numpy": "1.26.4", "torch": "2.13.0"}


def test_json_round_trip(data):
    assert from_dict(json.loads(to_json(data))) == data
    assert as_dict(from_dict(as_dict(data))) == as_dict(data)


def test_numbers_that_json_lacks_become_null():
    data = ReportData("t", "eo", results=[{"value": math.nan}, {"value": math.inf}, {"value": 1.5}])
    assert [row["value"] for row in json.loads(to_json(data))["results"]] == [None, None, 1.5]


def test_without_manifests_figures_stay(report_config, bare_artifacts):
    data = collect(report_config, bare_artifacts)
    assert len(data.results) == 20  # no speeds: those are in the manifests
    assert all(row["key"] is None for row in data.stages)
    assert data.libraries == {}


def test_without_anything(report_config):
    data = collect(report_config, {})
    assert data.mapping is None
    assert data.alignment is None
    assert data.results == data.corpora == data.losses == data.headline == []


def test_random_mapping_has_no_source_tokens(report_config, artifacts):
    folder = artifacts["mapping"]
    table = pq.read_table(folder / "tokens.parquet")
    count = table.num_rows
    for name, values in (("origin", ["random"] * count), ("sources", [0] * count), ("top_source", [None] * count)):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, table[name].type))
    pq.write_table(table, folder / "tokens.parquet")
    pq.write_table(pq.read_table(folder / "mapping.parquet").slice(0, 0), folder / "mapping.parquet")
    data = collect(report_config, artifacts)
    assert data.mapping["coverage"] == 0.0
    assert data.mapping["entropy"] == []
    assert [group["origin"] for group in data.mapping["examples"]] == ["random"]
