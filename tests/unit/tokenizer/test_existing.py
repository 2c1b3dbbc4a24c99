"""Strategy 'existing': the tokenizer of a helper model."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from configs.schema import TokenizerConfig
from tasks.contract import InputError
from tasks.pretrained import load_backend, load_tokenizer
from tasks.tokenizer.tokenizer_copy import copy_settled

EXISTING = TokenizerConfig(strategy="existing")
FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model")


@pytest.fixture
def helper(trained, tmp_path):
    """A folder of a model with more in it than a tokenizer."""
    folder = tmp_path / "helper"
    folder.mkdir()
    for name in FILES:
        shutil.copyfile(trained / name, folder / name)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenization_own.py").write_text("raise SystemExit('this must not run')")
    return folder


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_the_files_are_copied_and_the_rest_is_not(helpers, corpus, helper, trained, tmp_path):
    result = helpers["run"](corpus, tmp_path / "out", EXISTING, {"helper": helper})
    copied = {path.name for path in (tmp_path / "out").iterdir()}
    assert copied == {*FILES, "chat_template.jinja", "self_check.json", "frequencies.parquet"}
    for name in (*FILES, "chat_template.jinja"):
        assert (tmp_path / "out" / name).read_bytes() == (helper / name).read_bytes()
    assert AutoTokenizer.from_pretrained(str(tmp_path / "out")).chat_template == "{{ messages }}"
    assert result.summary["vocab_size"] == 600
    assert result.summary["training_sentences"] == 0
    assert [row["step"] for row in result.measurements] == ["copy", "self-check", "frequencies"]
    counts = pq.read_table(tmp_path / "out" / "frequencies.parquet")
    assert counts.equals(pq.read_table(trained / "frequencies.parquet"))
    check = json.loads((tmp_path / "out" / "self_check.json").read_text())
    assert check["sentences"] == 202
    assert check["special_tokens"] == {"bos": 1, "eos": 2, "unk": 0}
    assert check["same_ids"] == 1.0
    assert check["special_text"] == 1  # "unseen ☃ and ▁ and <s> here"
    assert check["failures"] == []


def test_the_source_tokenizer_is_copied_in_the_same_way(helpers, corpus, helper, trained, tmp_path):
    own = TokenizerConfig(strategy="source")
    result = helpers["run"](corpus, tmp_path / "out", own, {"source_tokenizer": helper})
    assert result.summary["vocab_size"] == 600
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (helper / name).read_bytes()
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"source tokenizer: .* has no tokenizer"):
        helpers["run"](corpus, tmp_path / "other", own, {"source_tokenizer": tmp_path / "empty"})


def test_code_of_its_own_never_runs(helper, tmp_path):
    change(
        helper / "tokenizer_config.json",
        auto_map={"AutoTokenizer": ["tokenization_own.Own", None]},
        tokenizer_class="OwnTokenizer",
    )
    (tmp_path / "out").mkdir()
    copy_settled(helper, tmp_path / "out", "helper tokenizer")
    config = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert "auto_map" not in config
    assert config["eos_token"] == "</s>"
    assert load_tokenizer(tmp_path / "out", "copy").eos_token_id == 2


def test_a_length_limit_and_padding_are_taken_out(helper, tmp_path):
    raw = Tokenizer.from_file(str(helper / "tokenizer.json"))
    raw.enable_truncation(4)
    raw.enable_padding(length=4)
    raw.save(str(helper / "tokenizer.json"))
    (tmp_path / "out").mkdir()
    made = copy_settled(helper, tmp_path / "out", "helper tokenizer")
    assert made.truncation is None
    assert made.padding is None
    text = "kali mo ne tu ra si vo be"
    assert load_tokenizer(tmp_path / "out", "copy").backend_tokenizer.encode(text).ids == made.encode(text).ids
    assert len(made.encode(text).ids) > 4


def test_a_tokenizer_without_its_configuration(helper, tmp_path):
    (helper / "tokenizer_config.json").unlink()
    (tmp_path / "out").mkdir()
    copy_settled(helper, tmp_path / "out", "helper tokenizer")
    loaded = load_tokenizer(tmp_path / "out", "copy")
    assert (loaded.bos_token_id, loaded.eos_token_id) == (1, 2)
    assert not loaded.clean_up_tokenization_spaces


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["<|endoftext|>"], {"bos": 0, "eos": 0}),
        (["<|begin_of_text|>", "<|end_of_text|>"], {"bos": 0, "eos": 1}),
        (["[UNK]", "<s>", "</s>", "<|endoftext|>"], {"unk": 0, "bos": 1, "eos": 2}),
        (["<|end|>"], {}),
    ],
)
def test_special_tokens_that_no_file_names(tmp_path, names, roles):
    from tokenizers import AddedToken, models, pre_tokenizers

    vocabulary = {name: i for i, name in enumerate([*names, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.add_special_tokens([AddedToken(name, special=True) for name in names])
    for folder in ("helper", "out"):
        (tmp_path / folder).mkdir()
    raw.save(str(tmp_path / "helper" / "tokenizer.json"))
    copy_settled(tmp_path / "helper", tmp_path / "out", "helper tokenizer")
    loaded = load_tokenizer(tmp_path / "out", "copy")
    found = {role: getattr(loaded, f"{role}_token_id") for role in ("unk", "bos", "eos")}
    assert {role: i for role, i in found.items() if i is not None} == roles


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_a_bare_sentencepiece_model_becomes_a_fast_tokenizer(helpers, corpus, tmp_path, algorithm):
    first = tmp_path / "first"
    helpers["run"](corpus, first, TokenizerConfig(algorithm=algorithm, vocab_size=400))
    (tmp_path / "bare").mkdir()
    shutil.copyfile(first / "tokenizer.model", tmp_path / "bare" / "tokenizer.model")
    helpers["run"](corpus, tmp_path / "out", EXISTING, {"helper": tmp_path / "bare"})
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (first / name).read_bytes()


def test_a_bare_sentencepiece_model_that_normalises_is_refused(tmp_path):
    import io

    import sentencepiece as spm

    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["a red house and a garden"] * 5), model_writer=model, vocab_size=16, minloglevel=5,
        user_defined_symbols=["[X]"],
    )  # fmt: skip
    (tmp_path / "tokenizer.model").write_bytes(model.getvalue())
    wanted = (
        r"no byte fallback, normalisation 'nmt_nfkc', extra white space removed, user-defined pieces.*tokenizer\.json"
    )
    with pytest.raises(InputError, match=wanted):
        copy_settled(tmp_path, tmp_path, "helper tokenizer")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", "is no JSON"),
        ("tokenizer.json", "[]", "holds a list, an object is needed"),
        ("tokenizer.json", "{}", "cannot be read"),
        ("tokenizer_config.json", "nothing", "is no JSON"),
    ],
)
def test_a_damaged_file(helper, tmp_path, name, content, message):
    (helper / name).write_text(content)
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match=message):
        copy_settled(helper, tmp_path / "out", "helper tokenizer")


def test_a_folder_without_a_tokenizer(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="has no tokenizer"):
        copy_settled(tmp_path, tmp_path / "out", "helper tokenizer")


def test_files_that_nothing_explains(tmp_path):
    (tmp_path / "vocab.json").write_text("{}")
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(InputError, match=r"says how merges.txt, vocab.json are to be read; add its tokenizer.json"):
        load_tokenizer(tmp_path, "helper tokenizer")


def test_special_tokens_written_as_objects(helper, tmp_path):
    """special_tokens_map.json may hold each token with its flags."""
    (helper / "tokenizer_config.json").unlink()
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    objects = {role: {"content": name, "lstrip": False, "normalized": False} for role, name in names.items()}
    (helper / "special_tokens_map.json").write_text(json.dumps(objects))
    (tmp_path / "out").mkdir()
    copy_settled(helper, tmp_path / "out", "helper tokenizer")
    loaded = load_tokenizer(tmp_path / "out", "copy")
    assert (loaded.bos_token_id, loaded.eos_token_id, loaded.unk_token_id) == (1, 2, 0)


def test_a_sentencepiece_model_with_the_models_configuration_is_read_by_transformers(trained, tmp_path):
    (tmp_path / "helper").mkdir()
    shutil.copyfile(trained / "tokenizer.model", tmp_path / "helper" / "tokenizer.model")
    (tmp_path / "helper" / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "out").mkdir()
    made = copy_settled(tmp_path / "helper", tmp_path / "out", "helper tokenizer")
    first = load_backend(trained, "trained")
    loaded = load_tokenizer(tmp_path / "out", "copy")
    assert (loaded.bos_token_id, loaded.eos_token_id, loaded.unk_token_id) == (1, 2, 0)
    for text in ("kali mo", "  two  spaces ", "12 ☃"):
        ids = first.encode(text, add_special_tokens=False).ids
        assert made.encode(text, add_special_tokens=False).ids == ids
        assert loaded(text, add_special_tokens=False)["input_ids"] == ids


def test_a_tokenizer_of_another_language_is_refused(helpers, tmp_path):
    from tokenizers import models, pre_tokenizers, trainers

    raw = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.train_from_iterator([["a house"]], trainers.WordLevelTrainer(special_tokens=["[UNK]"], show_progress=False))
    (tmp_path / "helper").mkdir()
    raw.save(str(tmp_path / "helper" / "tokenizer.json"))
    (tmp_path / "helper" / "special_tokens_map.json").write_text('{"unk_token": "[UNK]"}')
    corpus = helpers["write_corpus"](tmp_path / "corpus", ["kali mo"], ["kali mo a"])
    with pytest.raises(InputError, match="67% of the tokens of held-out text are unknown"):
        helpers["run"](corpus, tmp_path / "out", EXISTING, {"helper": tmp_path / "helper"})
    corpus = helpers["write_corpus"](tmp_path / "other", ["a house"], ["a house"])
    helpers["run"](corpus, tmp_path / "kept", EXISTING, {"helper": tmp_path / "helper"})
    check = json.loads((tmp_path / "kept" / "self_check.json").read_text())
    assert check["notes"] == ["no EOS token is named: documents are packed without a mark of their end"]


REAL = {
    "focus-de-xlmr-unigram-30k": 0.0,  # XLM-R's normalisation folds white space and compatibility forms
    "focus-sw-bpe-50k": 0.0,  # puts a space before the text
    "gpt-neox-20b": 1.0,
    "gpt2-50k": 1.0,
    "llama2-32k": 1.0,
    "mistral-v1-32k": 1.0,
}
LINES = ["Nyumba kubwa ni nyekundu, na bustani ni ndogo.", "Das Haus hat 12 Fenster.", "  two  spaces "]


@pytest.mark.shared_data
@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers(shared_data, helpers, tmp_path, name):
    folder = shared_data / "tokenizers" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    corpus = helpers["write_corpus"](tmp_path / "corpus", LINES, LINES)
    result = helpers["run"](corpus, tmp_path / "out", EXISTING, {"helper": folder})
    raw = load_backend(tmp_path / "out", "copy")
    loaded = load_tokenizer(tmp_path / "out", "copy")
    assert result.summary["vocab_size"] == max(raw.get_vocab(with_added_tokens=True).values()) + 1
    assert result.summary["same_ids_as_transformers"] == 1.0
    assert result.summary["round_trip"] >= REAL[name]
    if name == "focus-sw-bpe-50k":
        check = json.loads((tmp_path / "out" / "self_check.json").read_text())
        assert "RobertaTokenizer" in check["notes"][0]
    if (folder / "tokenizer.json").is_file():
        assert raw.encode(LINES[0]).ids == Tokenizer.from_file(str(folder / "tokenizer.json")).encode(LINES[0]).ids
    else:
        import sentencepiece as spm

        processor = spm.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        for line in LINES:
            assert loaded(line, add_special_tokens=False)["input_ids"] == processor.encode(line)
