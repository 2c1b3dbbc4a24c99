"""A tiny tokenizer, corpus and models, made here."""

import json
import multiprocessing
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from configs.schema import PhaseConfig
from storage.tables import write_table
from tasks.contract import StageContext, StageResult
from tasks.isolation import request_of
from tasks.training import stage

COPIES = 40
NOUNS = ("cat", "river", "teacher", "window", "garden", "engine", "letter", "mountain", "farmer", "boat")
VERBS = ("sees", "follows", "paints", "forgets", "carries", "opens", "hears", "likes")


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices gain nothing from threads, and lose much where the cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sentences(count: int) -> list[str]:
    return [
        f"the {NOUNS[i % 10]} {VERBS[i * 7 % 8]} the {NOUNS[i * 3 % 10]} near the {NOUNS[i * i % 10]} {i % 13}"
        for i in range(count)
    ]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences(200), trainer)
    tokenizer.enable_truncation(4)  # a saved setting that training must not obey
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, sentences(120))
    return folder


def write_corpus(folder: Path, texts: list[str], validation: list[str] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for split, lines in (("train", texts), ("validation", validation or sentences(130)[120:])):
        write_table(pa.table({"text": lines, "corpus": ["own"] * len(lines)}), folder / f"{split}.parquet")
    return folder


def tiny_llama(tied: bool = False, layers: int = 3, **settings) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=304,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=2,
        **settings,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return LlamaForCausalLM(config)


@pytest.fixture(scope="session")
def make_llama():
    return tiny_llama


@pytest.fixture(scope="session")
def make_model_folder(tmp_path_factory, tokenizer_folder):
    """Makes a model folder with the tokenizer; keyword arguments as for `tiny_llama`, and `dtype`."""

    def make(dtype: torch.dtype = torch.float32, **settings) -> Path:
        folder = tmp_path_factory.mktemp("model")
        tiny_llama(**settings).to(dtype).save_pretrained(folder)
        for file in tokenizer_folder.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        return folder

    return make


@pytest.fixture(scope="session")
def model_folder(make_model_folder) -> Path:
    return make_model_folder(attention_dropout=0.1)


@pytest.fixture(scope="session")
def make_phase():
    """Makes a small phase; keyword arguments replace its values."""

    def make(**values) -> PhaseConfig:
        defaults = {
            "name": "phase",
            "trainable": "all",
            "steps": 8,
            "sequence_length": 16,
            "batch_size": 6,
            "micro_batch_size": 4,
            "learning_rate": 1e-2,
            "schedule": "linear",
            "warmup_steps": 2,
            "weight_decay": 0.1,
            "log_every": 3,
            "checkpoint_every": 3,
            "threads": 1,
            "device": "cpu",
        }
        return PhaseConfig(**{**defaults, **values})

    return make


@dataclass(frozen=True)
class Finished:
    out: Path
    result: StageResult

    def contents(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in sorted(self.out.iterdir())}


@pytest.fixture(scope="session")
def run_training(corpus_folder):
    """Runs the training stage: (folder for out and work, model folder, config) -> Finished."""

    def run(
        place: Path, model: Path, config: PhaseConfig, corpus: Path = corpus_folder, further: dict | None = None, **more
    ) -> Finished:
        """`further`: more inputs, by name."""
        out, work = place / "out", place / "work"
        for folder in (out, work):
            folder.mkdir(parents=True, exist_ok=True)
        context = StageContext(config, {"model": model, "corpus": corpus, **(further or {})}, out, work, **more)
        return Finished(out, stage.run(context))

    return run


@pytest.fixture(scope="session")
def corpus_writer():
    return write_corpus


@pytest.fixture(scope="session")
def mapping(tmp_path_factory, tokenizer_folder):
    """Half and half of two old tokens; the first 40 are copies, the last two are not given."""
    size = len(AutoTokenizer.from_pretrained(str(tokenizer_folder)))
    folder, rng = tmp_path_factory.mktemp("mapping"), np.random.default_rng(0)
    pairs = np.stack([rng.choice(304, 2, replace=False) for _ in range(size)])
    rows = [(i, i, 1.0) for i in range(COPIES)]
    rows += [(i, s, 0.5) for i in range(COPIES, size - 2) for s in sorted(pairs[i].tolist())]
    target, source, weight = zip(*rows, strict=True)
    columns = [pa.array(target, pa.int32()), pa.array(source, pa.int32()), pa.array(weight)]
    write_table(pa.table(columns, names=["target_id", "source_id", "weight"]), folder / "mapping.parquet")
    origin = ["shared"] * COPIES + ["aligned"] * (size - 2 - COPIES) + ["random"] * 2
    write_table(pa.table({"origin": origin}), folder / "tokens.parquet")
    sizes = {"target_size": size, "source_size": 304, "uncovered": None}
    (folder / "mapping.json").write_text(json.dumps(sizes))
    return folder


# What a process that trains with others does first; it is forked from one that has imported all that takes long.
RANK = """
import os, sys
os.environ.update(variables)
log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(log, 1)
os.dup2(log, 2)
import torch
torch.set_num_threads(1)
"""
TRAINING = """
from tasks.training.run import main
sys.exit(main(request))
"""
IMPORTED = ["peft", "torch.distributed.fsdp", "transformers.models.llama.modeling_llama", "tasks.training.job"]


@dataclass(frozen=True)
class Together:
    """Processes that train together, as a launcher would start them.

    Attributes:
        place: folder with the output of each, and with `out` and `work`.
        ranks: the processes.
    """

    place: Path
    ranks: list

    def codes(self) -> list[int]:
        for rank in self.ranks:
            rank.join(60)
        return [rank.exitcode for rank in self.ranks]

    def output(self, rank: int = 0) -> str:
        file = self.place / f"{rank}.log"
        return file.read_text() if file.exists() else ""

    def finished(self) -> Finished:
        assert self.codes() == [0] * len(self.ranks), self.output(0) + self.output(1)
        result = json.loads((self.place / "work" / "result.json").read_text())
        return Finished(self.place / "out", StageResult(result["summary"], result["measurements"]))


@pytest.fixture(scope="session")
def start_code():
    """Starts two processes with the environment of a launcher: (folder, code, variables of the code) -> Together."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(IMPORTED)

    def start(place: Path, code: str, known: dict) -> Together:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        ranks = []
        for rank in (0, 1):
            numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_PORT": port}
            variables = {"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in numbers.items()}}
            own = {"variables": variables, "output": str(place / f"{rank}.log")}
            ranks.append(server.Process(target=exec, args=(RANK + code, own | known), daemon=True))
            ranks[-1].start()
        return Together(place, ranks)

    return start


@pytest.fixture(scope="session")
def start_processes(corpus_folder, start_code):
    """Starts two processes that train together: (folder, model folder, config) -> Together."""

    def start(place: Path, model: Path, config: PhaseConfig, further: dict | None = None) -> Together:
        """`further`: more inputs, by name. What an earlier start gave is removed, its working folder is kept."""
        shutil.rmtree(place / "out", ignore_errors=True)
        place.mkdir(parents=True, exist_ok=True)
        inputs = {"model": model, "corpus": corpus_folder, **(further or {})}
        request = request_of("training", StageContext(config, inputs, place / "out", place / "work"))
        (place / "request.json").write_text(json.dumps(request))
        return start_code(place, TRAINING, {"request": str(place / "request.json")})

    return start
