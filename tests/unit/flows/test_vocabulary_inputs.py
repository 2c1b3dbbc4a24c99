"""What the tokenizer stage is given, by strategy."""

import pytest

from configs.load import compose
from configs.schema import HubModel, LocalModel
from flows.graph import build_graph, required_helper
from flows.inputs import helper_model, helper_tokenizer
from storage.store import Store
from tasks.contract import InputError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def helper_folder(tmp_path):
    folder = tmp_path / "models" / "helper"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text("{}")
    return folder


def nodes(tmp_path, *overrides, model="tiny-english"):
    run = compose("eo", model, "mean", overrides)
    return {node.id: node for node in build_graph(run, tmp_path, tmp_path / "index")}


HELPER = "helper={kind: local, name: own, path: models/helper}"


def test_training_reads_the_corpus_and_the_tokens_to_keep(tmp_path):
    tokenizer = nodes(tmp_path)["tokenizer"]
    assert dict(tokenizer.inputs) == {"corpus": "corpus", "source_tokenizer": "source.tokenizer"}
    alone = nodes(tmp_path, "tokenizer.keep_added_tokens=false")["tokenizer"]
    assert dict(alone.inputs) == {"corpus": "corpus"}
    assert not tokenizer.external


def test_expansion_reads_the_source_tokenizer_and_text_of_the_source_language(tmp_path, write_model):
    overrides = ("tokenizer.strategy=expand",)
    tokenizer = nodes(tmp_path, *overrides)["tokenizer"]
    assert dict(tokenizer.inputs) == {
        "corpus": "corpus", "source_tokenizer": "source.tokenizer", "source_corpus": "source.corpus",
    }  # fmt: skip
    folder = str(write_model("config.json", "model.safetensors", "tokenizer.json"))
    found = nodes(tmp_path, *overrides, model=folder)
    assert dict(found["tokenizer"].inputs) == {"corpus": "corpus", "bitext": "bitext"}
    assert set(found["tokenizer"].external) == {"source_tokenizer"}
    assert list(found).index("bitext") < list(found).index("tokenizer")
    assert dict(nodes(tmp_path, *overrides, "bitext=null", model=folder)["tokenizer"].inputs) == {"corpus": "corpus"}


def test_a_group_reads_each_languages_corpus(tmp_path, monkeypatch):
    (tmp_path / "languages").mkdir()
    for code, seed in (("yy", 0), ("zz", 5)):
        (tmp_path / "languages" / f"{code}.yaml").write_text(
            f"code: {code}\nname: Other\ncorpus: {{seed: {seed}, sources: [{{kind: sample, side: source, "
            "sentences: 20}]}\n"
        )
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path))
    found = nodes(tmp_path, "tokenizer.group=[zz, en, yy]")
    assert dict(found["tokenizer"].inputs) == {
        "corpus": "corpus", "corpus.en": "source.corpus", "corpus.yy": "corpus.yy", "corpus.zz": "corpus.zz",
        "source_tokenizer": "source.tokenizer",
    }  # fmt: skip
    assert found["corpus.zz"].label == "corpus zz"
    other = nodes(tmp_path, "tokenizer.group=[yy, zz, en]")
    assert other["tokenizer"].inputs == found["tokenizer"].inputs


def test_an_existing_tokenizer_is_the_helpers(tmp_path, helper_folder):
    def helper():
        tokenizer = nodes(tmp_path, "tokenizer.strategy=existing", HELPER)["tokenizer"]
        assert dict(tokenizer.inputs) == {"corpus": "corpus"}
        return tokenizer.external["helper"]

    first = helper()
    assert first.locate() == helper_folder
    (helper_folder / "model.safetensors").write_bytes(b"weights are no part of it")
    assert helper().digest == first.digest
    (helper_folder / "merges.txt").write_text("a b\n")
    assert helper().digest != first.digest


def test_the_source_tokenizer_as_it_is(tmp_path):
    tokenizer = nodes(tmp_path, "tokenizer.strategy=source")["tokenizer"]
    assert dict(tokenizer.inputs) == {"corpus": "corpus", "source_tokenizer": "source.tokenizer"}


def test_a_helper_that_is_not_set(tmp_path):
    with pytest.raises(InputError, match=r"tokenizer.strategy 'existing' needs a helper model of language 'eo', but"):
        nodes(tmp_path, "tokenizer.strategy=existing")
    with pytest.raises(InputError, match=r"mapping\.method 'sava' needs a helper model"):
        required_helper(compose("eo", "tiny-english", "mean"), "mapping.method 'sava'")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../outside", "leads out of the data root .* --data-root"),
        ("/etc", "leads out of the data root"),
        ("nowhere", "helper model 'own': there is no folder"),
        ("empty", "no tokenizer"),
    ],
)
def test_a_helper_that_cannot_be_used(tmp_path, path, message):
    (tmp_path / "empty").mkdir()
    config = LocalModel(name="own", path=path)
    for read in (helper_tokenizer, helper_model):
        with pytest.raises(InputError, match=message):
            read(config, tmp_path, tmp_path / "index")


def test_a_whole_helper_needs_its_weights(tmp_path, helper_folder):
    with pytest.raises(InputError, match=r"helper model folder .*: no config.json; no \*.safetensors weights"):
        helper_model(LocalModel(name="own", path="models/helper"), tmp_path, tmp_path / "index")


def test_a_helper_on_the_hub_needs_no_network_for_a_plan(tmp_path):
    config = HubModel(name="own", repository="some/model", revision=COMMIT)
    tokenizer = helper_tokenizer(config, tmp_path, tmp_path / "index")
    assert tokenizer.digest == helper_model(config, tmp_path, tmp_path / "index").tokenizer.digest
    assert "some/model@01234567" in tokenizer.description


def test_a_plan_of_every_strategy(tmp_path, helper_folder):
    from flows.plan import make_plan

    store = Store(tmp_path / "store")
    for strategy in ("train", "expand", "existing", "source"):
        run = compose("eo", "tiny-english", "mean", [f"tokenizer.strategy={strategy}", HELPER])
        plan = make_plan(build_graph(run, tmp_path, tmp_path / "index"), store)
        assert "tokenizer" in [item.node.id for item in plan]
