"""Small tokenizers of three kinds, tiny models of several families, and what the stage `initial-model` reads."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from configs.schema import InitialModelConfig, TokenizerConfig
from storage.tables import write_table
from tasks.contract import StageContext, load_stage
from tasks.embeddings.dense_files import write_dense
from tasks.embeddings.token_mapping import TokenMapping
from tasks.tokenizer.convert import fast_tokenizer, write_sentencepiece
from tasks.tokenizer.sentencepiece_training import train_sentencepiece

ENGLISH = [
    "The old house stands beside the river, and fifteen children play in the garden.",
    "She wrote 15 letters to her friends; nobody answered (not even her brother)!",
    "Houses, gardens and rivers are what the children like to draw.",
    "A teacher reads a letter from a friend who lives near the old bridge.",
] * 3
DUTCH = [
    "Het oude huis staat naast de rivier en vijftien kinderen spelen in de tuin.",
    "Zij schreef 15 brieven aan haar vrienden; niemand antwoordde (zelfs haar broer niet)!",
    "Huizen, tuinen en rivieren tekenen de kinderen graag.",
] * 3
RUSSIAN = [
    "Старый дом стоит у реки, и пятнадцать детей играют в саду.",
    "Она написала 15 писем своим друзьям; никто не ответил!",
    "Дети любят рисовать дома, сады и реки.",
] * 3


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices gain nothing from threads, and lose much where the cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sentencepiece(folder: Path, texts: list[str], size: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    model = train_sentencepiece(texts, TokenizerConfig(vocab_size=size))
    write_sentencepiece(model, fast_tokenizer(model), folder)
    return folder


def byte_level(folder: Path, texts: list[str], size: int, specials: dict[str, str]) -> Path:
    """A byte-level BPE without an unknown token, as Llama 3 and GPT-2 have."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials.values()])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials).save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("tokenizers")
    ends = {"bos_token": "<|begin|>", "eos_token": "<|end|>"}
    return {
        "english": sentencepiece(root / "english", ENGLISH, 380),
        "dutch": sentencepiece(root / "dutch", DUTCH, 400),
        "russian": sentencepiece(root / "russian", RUSSIAN, 400),
        "english-bytes": byte_level(root / "english-bytes", ENGLISH, 350, ends),
        "russian-bytes": byte_level(root / "russian-bytes", RUSSIAN, 400, {**ends, "pad_token": "<|pad|>"}),
    }


@pytest.fixture(scope="session")
def tiny_llama():
    """Makes a model folder: (folder, rows, tied, dtype, tokenizer folder or None) -> folder."""

    def make(folder: Path, rows: int, tied: bool = False, dtype: torch.dtype = torch.float32) -> Path:
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=rows, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=tied, pad_token_id=None,
        )  # fmt: skip
        model = LlamaForCausalLM(config).to(dtype)
        model.save_pretrained(str(folder))
        return folder

    return make


SOURCE, TARGET = 380, 400
SMALL = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 64, "head_dim": 8, "initializer_range": 0.3,
}  # fmt: skip
FAMILIES = {
    "llama": ("LlamaConfig", SMALL),
    "mistral": ("MistralConfig", SMALL),
    "gemma": ("GemmaConfig", SMALL),
    "gemma2": ("Gemma2Config", SMALL),
    "qwen2": ("Qwen2Config", SMALL),
    "qwen3": ("Qwen3Config", SMALL),
    "gpt2": ("GPT2Config", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "initializer_range": 0.3}),
    "gptj": ("GPTJConfig", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "rotary_dim": 8,
                            "tie_word_embeddings": False, "initializer_range": 0.3}),
    "phi": ("PhiConfig", SMALL),
}  # fmt: skip
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}


def source_model(folder, family="llama", rows=SOURCE, tied=False, dtype=torch.float32, shard="5GB"):
    name, values = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, name)(vocab_size=rows, **{**values, "tie_word_embeddings": tied}, **ENDS)
    model = AutoModelForCausalLM.from_config(config)
    head = model.get_output_embeddings()
    if head.bias is not None:
        head.bias.data.normal_()
    model.to(dtype).save_pretrained(str(folder), max_shard_size=shard)
    return folder


def write_mapping(folder, mapping, seed=3):
    """The files of a mapping that the stage reads."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = mapping.rows.row_of_entry()
    write_table(
        pa.table({"target_id": pa.array(rows, pa.int32()), "source_id": mapping.source_ids, "weight": mapping.weights}),
        folder / "mapping.parquet",
    )
    write_table(pa.table({"origin": mapping.origins()}), folder / "tokens.parquet")
    uncovered = None if mapping.covered().all() else {"rule": "normal", "seed": seed}
    sizes = {"target_size": mapping.target_size, "source_size": mapping.source_size, "uncovered": uncovered}
    (folder / "mapping.json").write_text(json.dumps(sizes))
    return folder


def some_mapping(copies=50, empty=(), target=TARGET, source=SOURCE, seed=0):
    """The first rows are copies, the others means of two to four tokens; `empty` rows are without sources."""
    chooser = np.random.default_rng(seed)
    counts = np.where(np.arange(target) < copies, 1, chooser.integers(2, 5, target))
    counts[list(empty)] = 0
    rows = np.repeat(np.arange(target), counts)
    ids = np.concatenate([chooser.choice(source, n, replace=False) for n in counts])
    ids[rows < copies] = rows[rows < copies]
    return TokenMapping.from_coo(rows, ids, chooser.uniform(0.5, 1, len(rows)), (target, source))


def run_initial_model(inputs, out, **config):
    out.mkdir(parents=True, exist_ok=True)
    context = StageContext(config=InitialModelConfig(**config), inputs=inputs, out=out, work=out)
    return load_stage("initial-model").run(context)


@pytest.fixture(scope="session")
def held_out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    texts = ["Het oude huis staat in de tuin.", "De kinderen spelen naast de rivier.", "Zij leest een boek."]
    for split in ("train", "validation"):
        write_table(pa.table({"text": texts, "corpus": ["own"] * 3}), folder / f"{split}.parquet")
    return folder


@pytest.fixture
def model_inputs(tokenizers, held_out, tmp_path):
    """Makes the stage's inputs: (mapping, values of `source_model`) -> dict."""

    def make(mapping=None, dense=None, **values):
        folder = write_mapping(tmp_path / "mapping", mapping or some_mapping())
        if dense is not None:
            write_dense(folder, dense)
        return {
            "source_model": source_model(tmp_path / "source", **values),
            "tokenizer": tokenizers["dutch"],
            "source_tokenizer": tokenizers["english"],
            "mapping": folder,
            "corpus": held_out,
        }

    return make


@pytest.fixture(scope="session")
def build():
    """The functions `source_model`, `some_mapping`, `write_mapping` and `run` (the stage)."""
    return SimpleNamespace(
        source_model=source_model, some_mapping=some_mapping, write_mapping=write_mapping, run=run_initial_model
    )
