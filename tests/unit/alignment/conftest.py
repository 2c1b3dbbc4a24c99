"""Small tokenizers of each kind, built in memory, and bitexts of numbers."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from configs.schema import AlignmentConfig
from tasks.alignment.aligner import Aligned, DirectionName, Job, Report, no_report, offsets_of
from tasks.alignment.bitext import Bitext
from tasks.alignment.encoded_bitext import lowercased
from tasks.alignment.links import links_of_best, sort_links
from tasks.alignment.pharaoh import format_pharaoh

TEXTS = [
    "The old house stands near the river, and nobody's well-kept garden is as green.",
    "Στο παλιό σπίτι ζούσε μια γυναίκα με τρεις γάτες.",
    "В старом доме у реки жила женщина с тремя кошками.",
    "पुराने घर में एक औरत तीन बिल्लियों के साथ रहती थी।",
    "عاشت امرأة في البيت القديم مع ثلاث قطط.",
    "பழைய வீட்டில் ஒரு பெண் மூன்று பூனைகளுடன் வாழ்ந்தாள்.",
    "古い家に女の人が三匹の猫と住んでいた。 老房子里住着一个女人。",
    "In 1984 there were 12 of them; 3.5 km away.",
]


def byte_level() -> Tokenizer:
    """Byte-level BPE, as GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    return tokenizer


def sentencepiece(legacy: bool) -> Tokenizer:
    """BPE with byte fallback over Latin letters and some Devanagari; spaces by a normaliser (legacy) or Metaspace."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"]
    letters = "abcdefghijklmnopqrstuvwxyzT.,'-0123456789पुरानेघ"
    merges = [("t", "h"), ("th", "e"), ("\u2581", "the"), ("\u2581", "h"), ("o", "u"), ("s", "e"), ("\u2581h", "ou")]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, *letters, *(a + b for a, b in merges)])}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<unk>", "<s>", "</s>")])
    if legacy:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": byte_level,
    "sentencepiece": lambda: sentencepiece(legacy=False),
    "sentencepiece-legacy": lambda: sentencepiece(legacy=True),
}


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    """One tokenizer of each kind."""
    return {name: make() for name, make in TOKENIZERS.items()}


@pytest.fixture(scope="session")
def tokenizer_folders(tokenizers: dict[str, Tokenizer], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same as Hugging Face folders."""
    from transformers import PreTrainedTokenizerFast

    folders = {}
    for name, tokenizer in tokenizers.items():
        folders[name] = tmp_path_factory.mktemp(name)
        special = {} if name == "byte-level" else {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folders[name])
    return folders


def make_bitext(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Bitext:
    """A bitext of word numbers."""
    sides = [[list(pair[side]) for pair in pairs] for side in (0, 1)]
    flat = [np.array([word for sentence in side for word in sentence], dtype=np.int32) for side in sides]
    offsets = [np.cumsum([0, *map(len, side)]).astype(np.int64) for side in sides]
    sizes = [int(words.max()) + 1 for words in flat]
    return Bitext(flat[0], offsets[0], flat[1], offsets[1], sizes[0], sizes[1])


@pytest.fixture
def bitext_of() -> Callable[[Sequence[tuple[Sequence[int], Sequence[int]]]], Bitext]:
    """Maker of bitexts."""
    return make_bitext


@pytest.fixture
def small_bitext() -> Bitext:
    """40 pairs of 1 to 7 words, drawn from few words."""
    random = np.random.default_rng(5)
    return make_bitext(
        [
            (
                random.integers(0, 6, random.integers(1, 8)).tolist(),
                random.integers(0, 5, random.integers(1, 8)).tolist(),
            )
            for _ in range(40)
        ]
    )


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., Job]:
    """Maker of jobs from sentence pairs whose words are separated by blanks; every distinct text is a unit."""

    def make(
        pairs: Sequence[tuple[str, str]],
        directions: tuple[DirectionName, ...] = ("forward", "reverse"),
        files: dict[str, Path] | None = None,
        report: Report = no_report,
        **values: object,
    ) -> Job:
        vocabularies: tuple[dict[str, int], dict[str, int]] = ({}, {})
        numbers = [
            tuple(
                [v.setdefault(word, len(v)) for word in text.split(" ")]
                for v, text in zip(vocabularies, pair, strict=True)
            )
            for pair in pairs
        ]
        units = make_bitext(numbers)
        texts = tuple(pa.array(list(vocabulary), pa.string()) for vocabulary in vocabularies)
        config = AlignmentConfig(**values)
        words = lowercased(units, *texts, tmp_path) if config.lowercase else units
        corpus = np.zeros(len(pairs), dtype=np.int32)
        return Job(words, units, texts, corpus, directions, config, tmp_path, files or {}, report)

    return make


@pytest.fixture
def links_of() -> Callable[..., list[str]]:
    """The links of a direction, Pharaoh, source first."""

    def links(job: Job, aligned: Aligned, direction: DirectionName) -> list[str]:
        best = np.asarray(aligned.best[direction], dtype=np.int32)
        found = links_of_best(best, offsets_of(job.words, direction), direction == "reverse")
        return format_pharaoh(sort_links(found)).to_pylist()

    return links


def _alive(number: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def ended() -> Callable[[Path], bool]:
    """Whether the processes whose numbers a file holds end within 5 seconds."""

    def wait(path: Path) -> bool:
        numbers = [int(number) for number in path.read_text().split()]
        end = time.monotonic() + 5
        while any(map(_alive, numbers)) and time.monotonic() < end:
            time.sleep(0.02)
        return bool(numbers) and not any(map(_alive, numbers))

    return wait


@pytest.fixture
def write_bitext(tmp_path: Path) -> Callable[[Sequence[tuple[str, str]]], Path]:
    """Writer of a bitext artifact; returns its folder."""

    def write(pairs: Sequence[tuple[str, str]], corpora: Sequence[str] | None = ("c",)) -> Path:
        folder = tmp_path / "bitext"
        folder.mkdir(exist_ok=True)
        columns = {
            "source": pa.array([pair[0] for pair in pairs], pa.string()),
            "target": pa.array([pair[1] for pair in pairs], pa.string()),
        }
        if corpora is not None:
            names = list(corpora) * (len(pairs) if len(corpora) == 1 else 1)
            columns["corpus"] = pa.array(names, pa.string())
        pq.write_table(pa.table(columns), folder / "train.parquet")
        return folder

    return write
