"""What a newly trained vocabulary keeps of the source tokenizer."""

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from configs.schema import TokenizerConfig
from tasks.contract import InputError
from tasks.tokenizer.source_tokens import NOTHING, SourceTokens, read_source_tokens

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
MESSAGES = [{"role": "user", "content": "kali mo"}, {"role": "assistant", "content": "tu ra"}]
ALGORITHMS = ("bpe", "unigram", "byte-bpe")
USUAL = {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source tokenizer as chat models have it: no BOS, the end of a turn as EOS, a tool mark, runs of spaces."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(name, special=True) for name in ("<|im_end|>", "<|im_start|>", "<|pad|>")])
    raw.add_tokens([AddedToken("<tool>", special=False, rstrip=True), *map(AddedToken, ("    ", "\n\n", "▁▁"))])
    folder = tmp_path_factory.mktemp("chat")
    PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|pad|>", chat_template=TEMPLATE,
        additional_special_tokens=["<|im_start|>"],
    ).save_pretrained(folder)  # fmt: skip
    return folder


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_new_vocabulary_keeps_the_chat(chat, corpus, helpers, tmp_path, algorithm):
    config = TokenizerConfig(algorithm=algorithm, vocab_size=450)
    result = helpers["run"](corpus, tmp_path / "out", config, {"source_tokenizer": chat})
    source, made = (AutoTokenizer.from_pretrained(str(folder)) for folder in (chat, tmp_path / "out"))
    vocabulary = made.get_vocab()
    # the EOS is the source's and one of the trained; three others follow, and no run of spaces
    assert {token: i for token, i in vocabulary.items() if i >= 450} == {
        "<|im_start|>": 450,
        "<|pad|>": 451,
        "<tool>": 452,
    }
    assert result.summary["vocab_size"] == len(vocabulary) == 453
    assert (made.eos_token, made.pad_token) == ("<|im_end|>", "<|pad|>")
    assert made.bos_token == ("<|begin_of_text|>" if algorithm == "byte-bpe" else "<s>")
    assert made.additional_special_tokens == ["<|im_start|>"]
    assert made.chat_template == source.chat_template == TEMPLATE
    added = {token.content: token for token in made.added_tokens_decoder.values()}
    assert added["<tool>"].rstrip
    assert not added["<tool>"].special
    assert all(added[name].special for name in ("<|im_end|>", "<|im_start|>", "<|pad|>"))
    prompt = made.apply_chat_template(MESSAGES, tokenize=False)
    ids = made(prompt, add_special_tokens=False)["input_ids"]
    marks = [made.convert_ids_to_tokens(i) for i in ids if made.convert_ids_to_tokens(i) in added]
    assert marks == ["<|im_start|>", "<|im_end|>"] * 2
    assert made("kali <tool> mo", add_special_tokens=False)["input_ids"].count(452) == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_is_kept_where_it_is_not_asked_for(chat, corpus, helpers, tmp_path, algorithm):
    config = TokenizerConfig(algorithm=algorithm, vocab_size=450)
    helpers["run"](corpus, tmp_path / "plain", config)
    alone = config.model_copy(update={"keep_added_tokens": False})
    helpers["run"](corpus, tmp_path / "alone", alone, {"source_tokenizer": chat})
    for path in (tmp_path / "plain").iterdir():
        assert (tmp_path / "alone" / path.name).read_bytes() == path.read_bytes()


def test_named_templates_are_kept(chat, corpus, helpers, tmp_path):
    source = tmp_path / "source"
    tokenizer = AutoTokenizer.from_pretrained(str(chat))
    tokenizer.chat_template = {"default": TEMPLATE, "tool_use": "tools: " + TEMPLATE}
    tokenizer.save_pretrained(source)
    config = TokenizerConfig(algorithm="byte-bpe", vocab_size=300)
    helpers["run"](corpus, tmp_path / "out", config, {"source_tokenizer": source})
    made = AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    assert made.chat_template == {"default": TEMPLATE, "tool_use": "tools: " + TEMPLATE}


def test_a_text_with_a_kept_token_is_not_compared(chat, corpus, helpers, tmp_path):
    held_out = helpers["write_corpus"](tmp_path / "corpus", helpers["sentences"](300, 1), ["kali <tool> mo", "kali mo"])
    config = TokenizerConfig(vocab_size=400)
    helpers["run"](held_out, tmp_path / "out", config, {"source_tokenizer": chat})
    check = json.loads((tmp_path / "out" / "self_check.json").read_text())
    assert (check["sentences"], check["special_text"]) == (2, 1)


@pytest.mark.parametrize(
    ("roles", "names"),
    [
        ({}, {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}),
        ({"bos": "<bos>", "eos": "<eos>", "unk": "[UNK]"}, {"unk": "[UNK]", "bos": "<bos>", "eos": "<eos>"}),
        # one token for all (GPT-2) becomes the EOS
        (dict.fromkeys(("bos", "eos", "unk"), "<|end|>"), {"unk": "<unk>", "bos": "<s>", "eos": "<|end|>"}),
        # a usual name that the source uses otherwise
        ({"eos": "<s>", "pad": "<unk>"}, {"unk": "_<unk>", "bos": "_<s>", "eos": "<s>"}),
    ],
)
def test_names_of_special_tokens(roles, names):
    assert SourceTokens(roles).names(USUAL) == names


def test_roles_that_the_new_vocabulary_lacks_stay_the_sources():
    source = SourceTokens({"bos": "<b>", "eos": "<e>", "unk": "<u>", "pad": "<e>"})
    assert source.settings(source.names({"bos": "x", "eos": "y"})) == {
        "bos_token": "<b>", "eos_token": "<e>", "unk_token": "<u>", "pad_token": "<e>",
    }  # fmt: skip
    assert NOTHING.settings(NOTHING.names(USUAL)) == {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


def test_a_source_without_a_tokenizer(tmp_path):
    with pytest.raises(InputError, match=r"source tokenizer: .* has no tokenizer"):
        read_source_tokens(tmp_path)
