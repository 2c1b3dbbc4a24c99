"""From a SentencePiece model to a Hugging Face tokenizer with the same segmentation."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tasks.tokenizer.sentencepiece_training import SPACE


def merges_of(processor: spm.SentencePieceProcessor) -> list[tuple[str, str]]:
    """The merges equal to the model's pieces: each way to make a piece of two others, best piece first.

    SentencePiece joins the neighbours whose joined piece has the best score; tokenizers joins those whose pair stands
    first in a list. Only a piece that can be made of two overlapping pairs at once ("aba" of "ab", "a", "ba") could
    tell the two apart, which `self_check` would find.

    Returns:
        (left, right) pairs, in the order of the made piece's score, then of the length of the left part.
    """
    size = processor.get_piece_size()
    scores = {
        processor.id_to_piece(i): processor.get_score(i)
        for i in range(size)
        if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
    }
    found = [
        (-score, split, piece)
        for piece, score in scores.items()
        for split in range(1, len(piece))
        if piece[:split] in scores and piece[split:] in scores
    ]
    found.sort(key=lambda item: (item[0], item[2], item[1]))
    return [(piece[:split], piece[split:]) for _, split, piece in found]


def fast_tokenizer(model: bytes) -> Tokenizer:
    """The tokenizer of a SentencePiece model, with BOS put before every text and nothing after it.

    Args:
        model: content of a tokenizer.model: BPE or unigram with byte fallback, identity normalisation and a space put
            before the text, as `train_sentencepiece` makes it, or that of Llama 2 and Mistral.

    Raises:
        ValueError: the model has settings that would not be kept; the message names them.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    _check_settings(proto)
    processor = spm.SentencePieceProcessor(model_proto=model)
    controls = [processor.id_to_piece(i) for i in range(processor.get_piece_size()) if _special(processor, i)]
    if is_unigram(model):
        tokenizer = Tokenizer(_unigram(processor))
        tokenizer.pre_tokenizer = _spelled_out(controls)
    else:
        tokenizer = Tokenizer(_bpe(processor))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in controls])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    bos = processor.id_to_piece(processor.bos_id())
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos}:0 $A:0", pair=f"{bos}:0 $A:0 {bos}:1 $B:1", special_tokens=[(bos, processor.bos_id())]
    )
    return tokenizer


def is_unigram(model: bytes) -> bool:
    """Whether a SentencePiece model is a unigram model."""
    trainer = sentencepiece_model_pb2.ModelProto.FromString(model).trainer_spec
    return bool(trainer.model_type == trainer.UNIGRAM)


def _special(processor: spm.SentencePieceProcessor, i: int) -> bool:
    return bool(processor.is_control(i) or processor.is_unknown(i))


def _bpe(processor: spm.SentencePieceProcessor) -> models.BPE:
    return models.BPE(
        vocab={processor.id_to_piece(i): i for i in range(processor.get_piece_size())},
        merges=merges_of(processor),
        unk_token=processor.id_to_piece(processor.unk_id()),
        fuse_unk=True,
        byte_fallback=True,
        dropout=None,
    )


def _unigram(processor: spm.SentencePieceProcessor) -> models.Unigram:
    vocabulary = [(processor.id_to_piece(i), float(processor.get_score(i))) for i in range(processor.get_piece_size())]
    return models.Unigram(vocabulary, unk_id=processor.unk_id(), byte_fallback=True)


def _spelled_out(controls: list[str]) -> Any:
    """Cuts a text inside each byte or special token that it spells out ("<0x41>"), after the first character.

    The unigram model of tokenizers would take these for words; SentencePiece does not.
    """
    names = [f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in controls if len(name) > 1]
    return pre_tokenizers.Split(Regex("|".join(["<(?=0x[0-9A-F]{2}>)", *names])), behavior="merged_with_previous")


def _check_settings(proto: Any) -> None:
    """Refuse what `fast_tokenizer` would not keep."""
    trainer, rules = proto.trainer_spec, proto.normalizer_spec
    faults = {
        "a model type other than BPE and unigram": trainer.model_type not in (trainer.UNIGRAM, trainer.BPE),
        "no byte fallback": not trainer.byte_fallback,
        f"normalisation {rules.name!r}": bool(rules.precompiled_charsmap),
        "extra white space removed": rules.remove_extra_whitespaces,
        "no space put before the text": not rules.add_dummy_prefix,
        "spaces left as they are": not rules.escape_whitespaces,
        "the space at the end of words": trainer.treat_whitespace_as_suffix,
        "no BOS token": trainer.bos_id < 0,
        "user-defined pieces": any(piece.type == piece.USER_DEFINED for piece in proto.pieces),
    }
    found = [name for name, is_fault in faults.items() if is_fault]
    if found:
        raise ValueError(
            f"a SentencePiece model with {', '.join(found)} is not converted here; put the tokenizer.json of the same "
            "tokenizer beside it"
        )


def special_names(model: bytes) -> dict[str, str]:
    """bos_token, eos_token and unk_token of a SentencePiece model, those that it has."""
    processor = spm.SentencePieceProcessor(model_proto=model)
    ids = {"bos_token": processor.bos_id(), "eos_token": processor.eos_id(), "unk_token": processor.unk_id()}
    return {name: processor.id_to_piece(i) for name, i in ids.items() if i >= 0}


def write_sentencepiece(
    model: bytes, tokenizer: Tokenizer, folder: Path, settings: Mapping[str, Any] | None = None
) -> None:
    """Write the files from which AutoTokenizer loads `tokenizer`, and the SentencePiece `model` beside them.

    `settings` as in `write_fast`; None: the special tokens of the model.
    """
    (folder / "tokenizer.model").write_bytes(model)
    write_fast(tokenizer, special_names(model) if settings is None else settings, folder)


def write_fast(tokenizer: Tokenizer, settings: Mapping[str, Any], folder: Path) -> None:
    """Write the files from which AutoTokenizer loads `tokenizer`.

    A padding token is not made up: training packs sequences, and a token that stands only for padding would be one more
    row without a counterpart in most source models.

    Args:
        tokenizer: the tokenizer.
        settings: names of its special tokens (bos_token, eos_token, ...), and what else tokenizer_config.json shall
            hold.
        folder: where to.
    """
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    special = {name: value for name, value in settings.items() if name.endswith(("_token", "_special_tokens"))}
    write_json(folder / "special_tokens_map.json", special)
    write_json(
        folder / "tokenizer_config.json",
        {
            "pad_token": None,
            **settings,
            "add_bos_token": True,
            "add_eos_token": False,
            "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"],
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write `value` with sorted keys, so that the same value gives the same bytes."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
