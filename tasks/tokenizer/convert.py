"""From a SentencePiece BPE model to a Hugging Face tokenizer with the same segmentation."""

import json
from pathlib import Path
from typing import Any

import sentencepiece as spm
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from tasks.tokenizer.sentencepiece_bpe import BOS, BOS_ID, EOS, SPACE, UNK


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
    """The tokenizer of the SentencePiece model, with <s> put before every text and nothing after it.

    Args:
        model: content of a tokenizer.model made by `train_bpe`.
    """
    processor = spm.SentencePieceProcessor(model_proto=model)
    vocabulary = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=merges_of(processor),
            unk_token=UNK,
            fuse_unk=True,
            byte_fallback=True,
            dropout=None,
        )
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in (UNK, BOS, EOS)])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS}:0 $A:0", pair=f"{BOS}:0 $A:0 {BOS}:1 $B:1", special_tokens=[(BOS, BOS_ID)]
    )
    return tokenizer


def write_tokenizer(model: bytes, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the files from which AutoTokenizer loads `tokenizer`, and the SentencePiece `model` beside them.

    There is no padding token: training packs sequences, and a token that stands only for padding would be one more row
    without a counterpart in most source models.
    """
    (folder / "tokenizer.model").write_bytes(model)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    special = {"bos_token": BOS, "eos_token": EOS, "unk_token": UNK}
    _write_json(folder / "special_tokens_map.json", special)
    _write_json(
        folder / "tokenizer_config.json",
        {
            **special,
            "pad_token": None,
            "add_bos_token": True,
            "add_eos_token": False,
            "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"],
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
