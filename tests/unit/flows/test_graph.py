import pytest

from configs.load import compose
from configs.schema import key_fields
from flows.graph import build_graph, matching, up_to
from tasks.contract import InputError

TWO_SOURCES = """
code: qq
name: Testish
corpus: {sources: [{kind: sample, side: target, sentences: 300}]}
bitext: {sources: [{kind: sample, side: both, sentences: 300}]}
further_bitexts:
  ru: {sources: [{kind: sample, name: other, side: both, sentences: 200, seed: 5}]}
"""


def graph(tmp_path, recipe="trans-tokenization", language="eo", model="tiny-english", overrides=()):
    return build_graph(compose(language, model, recipe, overrides), tmp_path, tmp_path / "index")


def ids(nodes):
    return [node.id for node in nodes]


@pytest.fixture
def model_folder(write_model):
    return str(write_model("config.json", "model.safetensors", "tokenizer.json"))


def test_every_node_comes_after_what_it_needs(tmp_path):
    seen = set()
    for node in graph(tmp_path):
        assert set(node.inputs.values()) <= seen
        seen.add(node.id)


def test_one_sample_serves_corpora_and_bitext(tmp_path):
    assert sum(node.stage == "sample" for node in graph(tmp_path)) == 1
    nodes = graph(tmp_path, overrides=["corpus.sources.0.seed=1"])
    assert sum(node.stage == "sample" for node in nodes) == 2


def test_recipes_without_alignment_have_none(tmp_path):
    stages = {node.stage for node in graph(tmp_path, "mean")}
    assert stages.isdisjoint({"bitext", "alignment", "counts"})


def of_method(tmp_path, method, *overrides):
    """The node `mapping` of a run with this initialiser, and all stages of the run."""
    nodes = graph(tmp_path, "mean", overrides=[f"mapping.method={method}", *overrides])
    return {node.id: node for node in nodes}["mapping"], {node.stage for node in nodes}


@pytest.mark.parametrize(
    ("method", "inputs", "made"),
    [
        ("random", set(), set()),
        ("mean", set(), set()),
        ("merge", set(), set()),
        ("avg", {"source_model"}, set()),
        ("align", {"corpus"}, set()),
        ("trans-tokenization", {"counts"}, {"bitext", "alignment", "counts"}),
        ("wechsel", {"corpus", "bitext", "alignment"}, {"bitext", "alignment"}),
        ("blend", {"counts"}, {"bitext", "alignment", "counts"}),
    ],
)
def test_the_mapping_reads_what_its_initialiser_needs(tmp_path, method, inputs, made):
    mapping, stages = of_method(tmp_path, method)
    assert set(mapping.inputs) == {"tokenizer", "source_tokenizer"} | inputs
    assert stages & {"bitext", "alignment", "counts"} == made


def test_several_source_languages_are_aligned_and_counted_one_by_one(tmp_path, monkeypatch):
    (tmp_path / "own" / "languages").mkdir(parents=True)
    (tmp_path / "own" / "languages" / "qq.yaml").write_text(TWO_SOURCES)
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path / "own"))
    languages = "mapping.trans_tokenization.source_languages={en: 1, ru: 2}"
    weights = "counts.corpus_weights={sample: 0.5, other: 2.0}"
    nodes = {node.id: node for node in graph(tmp_path, language="qq", overrides=[languages, weights])}
    assert set(nodes["mapping"].inputs) == {"tokenizer", "source_tokenizer", "counts.en", "counts.ru"}
    assert nodes["mapping"].inputs["counts.ru"] == "counts.ru"
    assert nodes["mapping"].inputs["counts.en"] == "counts"
    assert nodes["counts.ru"].inputs["alignment"] == "alignment.ru"
    assert nodes["alignment.ru"].inputs["bitext"] == "bitext.ru"
    assert nodes["bitext.ru"].label == "bitext ru-qq"
    assert nodes["counts"].config.corpus_weights == {"sample": 0.5}
    assert nodes["counts.ru"].config.corpus_weights == {"other": 2.0}
    alone = ids(graph(tmp_path, language="qq", overrides=["mapping.trans_tokenization.source_languages={ru: 1}"]))
    assert {"bitext.ru", "alignment.ru", "counts.ru"} <= set(alone)
    assert {"bitext", "alignment", "counts"}.isdisjoint(alone)
    assert not any(name.endswith(".ru") for name in ids(graph(tmp_path, language="qq")))


def test_a_blend_may_hold_a_mapping_from_one_and_from_several_source_languages(tmp_path, monkeypatch):
    (tmp_path / "own" / "languages").mkdir(parents=True)
    (tmp_path / "own" / "languages" / "qq.yaml").write_text(TWO_SOURCES)
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path / "own"))
    several = "{method: trans-tokenization, settings: {trans_tokenization: {source_languages: {en: 1, ru: 1}}}}"
    blend = f"mapping={{method: blend, blend: {{parts: [{{method: trans-tokenization}}, {several}]}}}}"
    nodes = {node.id: node for node in graph(tmp_path, language="qq", overrides=[blend])}
    assert set(nodes["mapping"].inputs) == {"tokenizer", "source_tokenizer", "counts", "counts.en", "counts.ru"}


def test_a_helper_is_an_input_of_the_initialisers_that_need_one(tmp_path, write_model):
    with pytest.raises(InputError, match=r"mapping\.method 'sava' needs a helper model of language 'eo'"):
        of_method(tmp_path, "sava")
    folder = write_model("config.json", "model.safetensors", "tokenizer.json")
    helper = f"helper={{kind: local, name: small, path: {folder.relative_to(tmp_path)}}}"
    mapping, _ = of_method(tmp_path, "sava", helper)
    assert set(mapping.external) == {"helper"}
    assert mapping.external["helper"].locate() == folder
    assert set(mapping.inputs) == {"tokenizer", "source_tokenizer", "source_model"}
    assert not of_method(tmp_path, "mean", helper)[0].external


def test_files_of_an_initialiser_are_inputs_by_their_content(tmp_path):
    word_list = "mapping={method: trans-tokenization, trans_tokenization: {dictionary: words.tsv}}"
    with pytest.raises(InputError, match=r"mapping 'dictionary': there is no file .*words\.tsv"):
        graph(tmp_path, "mean", overrides=[word_list])
    (tmp_path / "words.tsv").write_text("dog\thundo\n")
    nodes = graph(tmp_path, "mean", overrides=[word_list])
    mapping = next(node for node in nodes if node.id == "mapping")
    assert mapping.files["dictionary"].locate() == tmp_path / "words.tsv"
    assert {node.stage for node in nodes}.isdisjoint({"bitext", "alignment", "counts"})


def test_a_phase_is_a_node_and_each_model_is_evaluated(tmp_path):
    names = ids(graph(tmp_path, overrides=["training.phases=[{name: one, trainable: all}]"]))
    assert [name for name in names if name.startswith("evaluation")] == [
        "evaluation.source",
        "evaluation.initial",
        "evaluation.1",
    ]
    assert "training.2" not in names
    assert "training.1" not in ids(graph(tmp_path, overrides=["training.steps=0"]))


def test_a_model_from_outside_gives_its_tokenizer_apart(tmp_path, model_folder):
    nodes = {node.id: node for node in graph(tmp_path, model=model_folder)}
    assert "source.pretraining" not in nodes
    alignment, initial = nodes["alignment"], nodes["initial-model"]
    assert alignment.external["source_tokenizer"].digest != initial.external["source_model"].digest
    assert nodes["report"].external["source_tokenizer"] == alignment.external["source_tokenizer"]


def test_until_keeps_what_the_stage_needs_and_nothing_else(tmp_path):
    names = ids(up_to(graph(tmp_path), "alignment"))
    assert names[-1] == "alignment"
    assert {"sample", "source.corpus", "source.tokenizer", "corpus", "bitext", "tokenizer"} <= set(names)
    assert not {"source.pretraining", "fertility", "mapping"} & set(names)
    assert ids(up_to(graph(tmp_path), "training.1"))[-1] == "training.1"


def test_names_of_stages_and_of_nodes_are_both_known(tmp_path):
    nodes = graph(tmp_path)
    assert matching(nodes, ["training"], "rerun") == ["training.1", "training.2"]
    assert matching(nodes, ["training.2"], "rerun") == ["training.2"]
    with pytest.raises(ValueError, match=r"rerun: this run has no stage 'aligment'; it has sample, corpus"):
        matching(nodes, ["aligment"], "rerun")


def test_the_language_code_is_in_no_key(tmp_path):
    for node in graph(tmp_path):
        if node.stage not in ("card", "report"):
            assert "eo" not in key_fields(node.config).values()


def alignment(tmp_path, *overrides):
    return {node.id: node for node in graph(tmp_path, overrides=overrides)}["alignment"]


def test_the_aligners_program_is_an_input(tmp_path, monkeypatch):
    monkeypatch.delenv("LANGADAPT_FAST_ALIGN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "fast_align"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert dict(alignment(tmp_path).files) == {}  # what is on PATH is not taken unasked
    upstream = alignment(tmp_path, "alignment.aligner=fast_align").files
    assert set(upstream) == {"fast_align"}
    assert upstream["fast_align"].locate() == program
    program.write_text("#!/bin/sh\n# newer\n")
    assert (
        alignment(tmp_path, "alignment.aligner=fast_align").files["fast_align"].digest != upstream["fast_align"].digest
    )
    program.unlink()
    with pytest.raises(InputError, match="'fast_align', but its program is not there"):
        alignment(tmp_path, "alignment.aligner=fast_align")


def test_a_word_list_is_an_input_by_its_content(tmp_path):
    overrides = ("alignment.aligner=dictionary", "alignment.dictionary=words.tsv")
    with pytest.raises(InputError, match=r"alignment\.dictionary: there is no file .*words\.tsv(?s:.*)--data-root"):
        alignment(tmp_path, *overrides)
    (tmp_path / "words.tsv").write_text("house\tdomo\n")
    node = alignment(tmp_path, *overrides)
    assert set(node.files) == {"dictionary"}
    assert "words.tsv" not in key_fields(node.config).values()
    (tmp_path / "other.tsv").write_text("house\tdomo\n")
    other = alignment(tmp_path, overrides[0], "alignment.dictionary=other.tsv")
    assert other.files["dictionary"].digest == node.files["dictionary"].digest


@pytest.mark.parametrize("path", ["../words.tsv", "/etc/hostname", "a/../../words.tsv"])
def test_no_path_leaves_the_data_root(tmp_path, path):
    (tmp_path / "data").mkdir()
    (tmp_path / "words.tsv").write_text("house\tdomo\n")
    run = compose(
        "eo", "tiny-english", "trans-tokenization", ["alignment.aligner=dictionary", f"alignment.dictionary={path}"]
    )
    with pytest.raises(InputError, match=r"alignment\.dictionary: .* leads out of the data root"):
        build_graph(run, tmp_path / "data", tmp_path / "index")


def test_missing_data_is_found_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match="lafand-train"):
        graph(tmp_path, language="sw")
