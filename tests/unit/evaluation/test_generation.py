from types import SimpleNamespace

import pytest
import torch

from tasks.evaluation.generation import generation_speed, prompt, text_bytes


def test_prompt_is_the_first_words():
    assert prompt("one two three four five six") == "one two three four five"
    assert len(prompt("x" * 500)) == 40


def test_bytes_of_undecodable_text_are_not_inflated():
    assert text_bytes("añ") == 3
    assert text_bytes("a\ufffd\ufffd") == 3


@pytest.mark.parametrize("tokens", [1, 7])
def test_exactly_the_wanted_tokens_are_generated(make_model, make_tokenizer, tokens):
    model = make_model()
    lengths = []
    generate = model.generate

    def spy(**arguments):
        output = generate(**arguments)
        lengths.append(output.shape[1] - arguments["input_ids"].shape[1])
        return output

    model.generate = spy
    speed = generation_speed(model, make_tokenizer(), ["the cat sat", "a dog"], tokens, prefix=1)
    assert lengths == [tokens] * 3  # one warm-up, two prompts
    assert speed is not None
    assert speed.tokens_per_second > 0
    assert speed.bytes_per_second > 0


def test_positions_limit_the_tokens(make_model, make_tokenizer):
    speed = generation_speed(make_model(positions=8), make_tokenizer(), ["the cat"], 64, prefix=1)
    assert speed is not None
    assert speed.tokens == 5


def test_nothing_to_generate_is_none(make_tokenizer):
    model = SimpleNamespace(config=SimpleNamespace(), device=torch.device("cpu"))
    assert generation_speed(model, make_tokenizer(), ["the cat"], 0, prefix=1) is None
    assert generation_speed(model, make_tokenizer(), [], 8, prefix=1) is None
