"""Generation speed: text written a second, which is comparable across tokenizers."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

PROMPT_WORDS = 5
PROMPT_CHARACTERS = 40
PROMPT_TOKENS = 32
REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class Speed:
    """Medians over the prompts.

    Attributes:
        bytes_per_second: UTF-8 bytes of generated text a second.
        tokens_per_second: generated tokens a second.
        tokens: tokens generated for each prompt.
        prompts: prompts measured.
    """

    bytes_per_second: float
    tokens_per_second: float
    tokens: int
    prompts: int


def prompt(text: str) -> str:
    """The first words of `text`: at most 5, at most 40 characters (for scripts without spaces)."""
    return " ".join(text.split()[:PROMPT_WORDS])[:PROMPT_CHARACTERS].rstrip()


def text_bytes(text: str) -> int:
    """UTF-8 bytes of generated text, a replacement character counted as the one invalid byte it stands for."""
    return len(text.encode()) - text.count(REPLACEMENT) * (len(REPLACEMENT.encode()) - 1)


def generation_speed(model: Any, tokenizer: Any, texts: Sequence[str], tokens: int, prefix: int | None) -> Speed | None:
    """How fast `model` continues the beginnings of `texts`, one at a time.

    Greedy; exactly `tokens` new tokens a prompt (fewer where the model's positions end), so that all models are timed
    over the same number of steps. One unmeasured generation comes first.

    Args:
        model: causal language model of transformers, in evaluation mode, on its device.
        tokenizer: its tokenizer.
        texts: one prompt is made of each.
        tokens: new tokens a prompt.
        prefix: id put before every prompt; None: nothing.

    Returns:
        The medians; None where nothing can be generated (no tokens asked for, or no prompt with a token).
    """
    encoded = [_prompt_ids(tokenizer, text, prefix) for text in texts]
    encoded = [ids for ids in encoded if ids]
    positions = getattr(model.config, "max_position_embeddings", None)
    if encoded and positions is not None:
        tokens = min(tokens, positions - max(len(ids) for ids in encoded))
    if not encoded or tokens < 1:
        return None
    _generate(model, encoded[0], tokens, tokenizer)
    seconds, sizes = [], []
    for ids in encoded:
        start = _clock(model)
        written = _generate(model, ids, tokens, tokenizer)
        seconds.append(_clock(model) - start)
        sizes.append(_written_bytes(tokenizer, ids, written))
    return Speed(
        bytes_per_second=statistics.median(size / second for size, second in zip(sizes, seconds, strict=True)),
        tokens_per_second=statistics.median(tokens / second for second in seconds),
        tokens=tokens,
        prompts=len(encoded),
    )


def _prompt_ids(tokenizer: Any, text: str, prefix: int | None) -> list[int]:
    ids: list[int] = tokenizer(prompt(text), add_special_tokens=False)["input_ids"][:PROMPT_TOKENS]
    return ids if prefix is None else [prefix, *ids]


def _generate(model: Any, ids: list[int], tokens: int, tokenizer: Any) -> list[int]:
    from transformers import GenerationConfig

    end = tokenizer.eos_token_id
    model.generation_config = GenerationConfig(
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        do_sample=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=end,
        pad_token_id=0 if end is None else end,
    )
    given = torch.tensor([ids], device=model.device)
    with torch.inference_mode():
        output = model.generate(input_ids=given, attention_mask=torch.ones_like(given))
    written: list[int] = output[0, len(ids) :].tolist()
    return written


def _written_bytes(tokenizer: Any, given: list[int], written: list[int]) -> int:
    """Bytes of the continuation: decoded after its prompt, because a first token decoded alone loses its space."""
    whole = tokenizer.decode([*given, *written], skip_special_tokens=True)
    before = tokenizer.decode(given, skip_special_tokens=True)
    return max(0, text_bytes(whole) - text_bytes(before))


def _clock(model: Any) -> float:
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)
    return time.perf_counter()
