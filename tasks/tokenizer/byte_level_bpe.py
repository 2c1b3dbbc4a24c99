"""Training of a byte-level BPE vocabulary."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from configs.schema import TokenizerConfig
from tasks.contract import InputError

NAMES: Mapping[str, str] = MappingProxyType({"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>"})
BOS_ID = 0
# A word with the one sign or space before it; digits; punctuation with the space before it; line ends; other space.
# Marks belong to words, so that Indic words stay whole; no language's contractions are built in.
_WORDS = (
    r"[^\r\n\p{{L}}\p{{M}}\p{{N}}]?[\p{{L}}\p{{M}}]+|{digits}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_byte_level_bpe(
    batches: Iterable[list[str]], config: TokenizerConfig, names: Mapping[str, str] = NAMES
) -> Tokenizer:
    """A byte-level BPE tokenizer trained on `batches`, with BOS put before every text and nothing after it.

    Every text comes back from its tokens byte for byte: nothing is normalised and every byte has a token, so there is
    no unknown token. Ids: BOS 0, EOS 1, then the 256 bytes, then the merges; there is no padding token. The same text
    gives the same tokenizer, whatever the number of threads.

    Args:
        batches: lists of texts.
        config: size of the vocabulary and whether digits stand alone.
        names: strings of the special tokens "bos" and "eos".

    Raises:
        InputError: there is no text, or it supports fewer than `vocab_size` tokens.
    """
    tokenizer = Tokenizer(models.BPE(byte_fallback=False, ignore_merges=False))
    digits = r"\p{N}" if config.split_digits else r" ?\p{N}+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS.format(digits=digits)), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=1,
        special_tokens=[AddedToken(token, normalized=False, special=True) for token in (names["bos"], names["eos"])],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    any_text = False

    def texts() -> Iterator[list[str]]:
        nonlocal any_text
        for batch in batches:
            any_text = any_text or any(batch)
            yield batch

    tokenizer.train_from_iterator(texts(), trainer)
    if not any_text:
        raise InputError("tokenizer: the training split has no text; check corpus.sources and their rejections")
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if size < config.vocab_size:
        raise InputError(
            f"tokenizer.vocab_size is {config.vocab_size}, but the training text supports at most {size} tokens; "
            f"set tokenizer.vocab_size to {size} or less, or add text"
        )
    bos = names["bos"]
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True, add_prefix_space=False, use_regex=False),
            processors.TemplateProcessing(
                single=f"{bos}:0 $A:0", pair=f"{bos}:0 $A:0 {bos}:1 $B:1", special_tokens=[(bos, BOS_ID)]
            ),
        ]
    )
    return tokenizer
