"""Training of a SentencePiece vocabulary, BPE or unigram, with byte fallback."""

import io
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import sentencepiece as spm

from configs.schema import TokenizerConfig
from tasks.contract import InputError

NAMES: Mapping[str, str] = MappingProxyType({"unk": "<unk>", "bos": "<s>", "eos": "</s>"})
UNK_ID, BOS_ID, EOS_ID = 0, 1, 2
SPACE = "▁"
# SentencePiece leaves out sentences that hold these (a tab is its field separator, U+2585 its mark of the unknown).
_RESERVED = str.maketrans({"\t": " ", "\u2585": " ", "\0": " "})
# Longer sentences would be left out without an error; the trainer counts words, so long sentences cost nothing more.
_LONGEST_SENTENCE_BYTES = 1 << 30
# The model file records the number of threads, and sums of unigram training depend on it: one for all machines.
_THREADS = 1
_QUIET = 5

_TOO_HIGH = re.compile(r"Vocabulary size too high \((\d+)\).*?<= (\d+)", re.DOTALL)
_TOO_LOW = re.compile(r"smaller than required_chars\.?\s*(\d+) vs (\d+)", re.DOTALL)


def train_sentencepiece(texts: Iterable[str], config: TokenizerConfig, names: Mapping[str, str] = NAMES) -> bytes:
    """The SentencePiece model trained on `texts`: the content of a tokenizer.model.

    The algorithm is `config.algorithm`, 'bpe' or 'unigram'. Text is taken as it is (identity normalisation, spaces
    kept, one space put before the text); unknown characters become bytes. Ids: unk 0, bos 1, eos 2, then the 256
    bytes; there is no padding token. No path gets into the model, and the same texts in the same order give the same
    bytes.

    Args:
        texts: training text, one sentence or paragraph each.
        config: algorithm, size of the vocabulary, character coverage and whether digits stand alone.
        names: strings of the special tokens "unk", "bos" and "eos".

    Raises:
        InputError: there is no text, or `vocab_size` is more or less than the text allows.
    """
    model = io.BytesIO()
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=(text.translate(_RESERVED) for text in texts),
            model_writer=model,
            model_type=config.algorithm,
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            split_digits=config.split_digits,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=True,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_id=-1,
            unk_piece=names["unk"],
            bos_piece=names["bos"],
            eos_piece=names["eos"],
            max_sentence_length=_LONGEST_SENTENCE_BYTES,
            num_threads=_THREADS,
            minloglevel=_QUIET,
        )
    except RuntimeError as error:
        raise _explained(str(error), config) or error from error
    return model.getvalue()


def _explained(message: str, config: TokenizerConfig) -> InputError | None:
    """The error for the person behind SentencePiece's `message`; None when it is not known."""
    if "sentences_.empty()" in message:
        return InputError("tokenizer: the training split has no text; check corpus.sources and their rejections")
    if match := _TOO_HIGH.search(message):
        return InputError(
            f"tokenizer.vocab_size is {match[1]}, but the training text supports at most {match[2]} tokens; "
            f"set tokenizer.vocab_size to {match[2]} or less, or add text"
        )
    if match := _TOO_LOW.search(message):
        return InputError(
            f"tokenizer.vocab_size is {match[1]}, but the special tokens, the 256 bytes and the characters of the "
            f"training text need at least {match[2]}; set tokenizer.vocab_size to {match[2]} or more, or lower "
            f"tokenizer.character_coverage (now {config.character_coverage})"
        )
    return None
