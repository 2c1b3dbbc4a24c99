"""A Llama model from nothing."""

from typing import Any

import torch

from configs.schema import ArchitectureConfig
from tasks.contract import InputError
from tasks.training.text_encoder import TextEncoder


def build_llama(shape: ArchitectureConfig, encoder: TextEncoder, seed: int) -> Any:
    """A `LlamaForCausalLM` of `shape` for the vocabulary of `encoder`, float32, weights drawn with `seed` alone.

    Raises:
        InputError: the heads do not divide the width.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    _check(shape)
    config = LlamaConfig(
        vocab_size=encoder.size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        max_position_embeddings=shape.max_positions,
        tie_word_embeddings=shape.tied,
        bos_token_id=encoder.bos,
        eos_token_id=encoder.eos,
        pad_token_id=encoder.pad,
        attn_implementation="sdpa",
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return LlamaForCausalLM(config).float()


def _check(shape: ArchitectureConfig) -> None:
    if shape.hidden_size % shape.heads or (shape.hidden_size // shape.heads) % 2:
        raise InputError(
            f"architecture: hidden_size {shape.hidden_size} over {shape.heads} heads must give an even whole number of "
            "dimensions a head (rotary positions turn pairs)"
        )
    if shape.heads % shape.key_value_heads:
        raise InputError(
            f"architecture: heads {shape.heads} must be a multiple of key_value_heads {shape.key_value_heads}"
        )
