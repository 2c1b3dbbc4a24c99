"""The checks of an initial model at work, on tiny models of several families."""

import pytest
import torch

from tasks.embeddings.stored_model import open_model
from tasks.embeddings.verification import _source_head
from tasks.embeddings.verify_forward import NEW_TOKENS, check_generation, hidden_states, token_sequences
from tasks.pretrained import load_causal_model


class Numbers:
    """Decodes ids as numbers."""

    def decode(self, ids):
        return " ".join(map(str, ids))


@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3", "gpt2", "gptj", "phi"])
def test_generation_is_greedy_and_reads_its_own_tokens(build, tmp_path, family):
    model = load_causal_model(build.source_model(tmp_path, family), "model")
    ids = [5, 6, 7]
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    check = check_generation(model, Numbers(), [5, 6, 7], 380)
    assert check.status == "passed"
    assert check.measured == {"prompt": "5 6 7", "text": " ".join(map(str, ids[3:]))}
    assert check_generation(model, Numbers(), [5, 6, 7], max(ids)).rows == [max(ids)]
    model.get_output_embeddings().weight.data[3] = float("nan")
    assert check_generation(model, Numbers(), [5, 6, 7], 380).message == "logits are NaN or infinite after 0 tokens"


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_hidden_states_are_what_the_head_reads(build, tmp_path, family):
    model = load_causal_model(build.source_model(tmp_path, family), "model")
    hidden, finite = hidden_states(model, [[5, 6, 7], [8, 9]])
    head = model.get_output_embeddings()
    with torch.no_grad():
        expected = torch.cat([model(torch.tensor([ids])).logits[0] for ids in ([5, 6, 7], [8, 9])])
        assert torch.allclose(head(hidden), expected, atol=1e-5)
    assert finite


def test_sequences_without_text_are_spread_over_the_vocabulary():
    first, second = token_sequences(None, [], 1000)
    assert (first[0], second[-1], len(first), len(second)) == (0, 999, 32, 32)


@pytest.mark.parametrize("rows", [380, 9000])
def test_source_rows_are_read_in_runs(build, tmp_path, rows):
    source = open_model(build.source_model(tmp_path, "phi", rows=rows), "model")
    head, bias = _source_head(source, rows - 5)
    table, biases = source.tables.head.read(), source.tables.bias.read()
    ids = [int((table == row).all(dim=1).nonzero()[0]) for row in head[:: 1 if rows == 380 else 64]]
    assert len(head) == len(bias) == (375 if rows == 380 else 4096)
    assert ids[0] == 0
    assert ids[-1] == (374 if rows == 380 else rows - 5 - 64)
    assert torch.equal(bias[-1], biases[rows - 6])
