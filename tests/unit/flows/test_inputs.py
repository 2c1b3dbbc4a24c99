import numpy as np
import pytest
from safetensors.numpy import save_file

from configs.schema import CorpusConfig, FileSource, HubModel, HubSource, LocalModel
from flows.inputs import hub_model, local_model, pinned, source_files
from tasks.contract import InputError


def corpus(*sources):
    return CorpusConfig(sources=sources)


def text_file(name, path, **changes):
    return FileSource(name=name, path=path, **{"format": "txt", **changes})


def test_the_digest_of_a_file_is_that_of_its_content(tmp_path):
    (tmp_path / "a.txt").write_text("saluton\n")
    (tmp_path / "b.txt").write_text("saluton\n")
    files = source_files(corpus(text_file("a", "a.txt"), text_file("b", "b.txt")), tmp_path, tmp_path / "index")
    assert files["a"].digest == files["b"].digest
    assert files["a"].locate() == tmp_path / "a.txt"
    (tmp_path / "a.txt").write_text("adiaux!\n")
    changed = source_files(corpus(text_file("a", "a.txt")), tmp_path, tmp_path / "index")
    assert changed["a"].digest != files["b"].digest


def test_a_moses_pair_is_two_files(tmp_path):
    (tmp_path / "a.en").write_text("x\n")
    (tmp_path / "a.eo").write_text("y\n")
    source = text_file("pair", "a.en", target_path="a.eo", format="moses")
    assert set(source_files(corpus(source), tmp_path, tmp_path / "index")) == {"pair", "pair.target"}


def test_every_missing_file_is_named_with_the_data_root(tmp_path):
    (tmp_path / "folder").mkdir()
    sources = (text_file("a", "a.txt"), text_file("b", "folder"))
    with pytest.raises(InputError) as error:
        source_files(corpus(*sources), tmp_path, tmp_path / "index")
    assert f"there is no file {tmp_path / 'a.txt'}" in str(error.value)
    assert "is a folder" in str(error.value)
    assert "--data-root" in str(error.value)


@pytest.fixture
def model(write_model):
    """Makes a local model with the named files."""
    return lambda *names: LocalModel(name="mine", path=str(write_model(*names)))


def test_a_model_and_its_tokenizer_have_digests_of_their_own(tmp_path, model):
    config = model("config.json", "model.safetensors", "tokenizer.json", "README.md")
    before = local_model(config, tmp_path, tmp_path / "index")
    (tmp_path / "model" / "README.md").write_text("other words")
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "model" / "model.safetensors")
    after = local_model(config, tmp_path, tmp_path / "index")
    assert after.tokenizer.digest == before.tokenizer.digest
    assert after.model.digest != before.model.digest


def test_a_tokenizer_is_what_it_is_read_from(tmp_path, model):
    """Named chat templates count, and config.json where only that tells the tokenizer's class."""
    config = model("config.json", "model.safetensors", "tokenizer.json")
    folder = tmp_path / "model"

    def digest():
        return local_model(config, tmp_path, tmp_path / "index").tokenizer.digest

    digests = [digest()]
    (folder / "config.json").write_text('{"model_type": "llama"}')
    digests.append(digest())
    (folder / "tokenizer_config.json").write_text("{}")
    digests.append(digest())
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tools.jinja").write_text("{{ tools }}")
    digests.append(digest())
    assert len(set(digests)) == 4
    (folder / "config.json").write_text('{"model_type": "mistral"}')
    assert digest() == digests[-1]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("config.json", "model.safetensors"), "no tokenizer"),
        (
            ("config.json", "tokenizer.json", "pytorch_model.bin"),
            r"no \*\.safetensors weights \(only pytorch_model\.bin",
        ),
        (("model.safetensors", "tokenizer.json"), r"no config\.json"),
    ],
)
def test_a_model_folder_that_lacks_something(tmp_path, model, names, message):
    with pytest.raises(InputError, match=message):
        local_model(model(*names), tmp_path, tmp_path / "index")


def test_a_commit_needs_no_network():
    commit = "0123456789abcdef" * 2 + "01234567"
    source = HubSource(name="web", dataset="some/text", revision=commit)
    assert pinned(corpus(source)).sources[0].revision == commit
    one = hub_model(HubModel(name="m", repository="some/model", revision=commit))
    other = hub_model(HubModel(name="m", repository="some/model", revision=commit[::-1]))
    assert one.model.digest != one.tokenizer.digest
    assert one.model.digest != other.model.digest


def test_a_hub_that_does_not_answer_is_a_clear_error(monkeypatch):
    def refuse(self, *arguments, **options):
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", refuse)
    with pytest.raises(InputError, match=r"cannot get model some/model-that-is-nowhere@main.*no route to host"):
        hub_model(HubModel(name="m", repository="some/model-that-is-nowhere"))
    with pytest.raises(InputError, match="cannot get data set some/text@main"):
        pinned(corpus(HubSource(name="web", dataset="some/text")))


def test_cut_weights_and_a_broken_configuration_are_found_before_anything_runs(tmp_path, model):
    config = model("config.json", "model.safetensors", "tokenizer.json")
    path = tmp_path / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    (tmp_path / "model" / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json is damaged .*; model\.safetensors is damaged"):
        local_model(config, tmp_path, tmp_path / "index")
