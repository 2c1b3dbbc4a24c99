import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from tasks.contract import InputError
from tasks.training.objective import Objective, count_predictions, labels_ahead, step_loss


class Lookup(nn.Module):
    """The hidden state of a token is its row."""

    def __init__(self, rows):
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(rows))

    def forward(self, input_ids, use_cache=False, shift=0.0):
        return (self.rows[input_ids] + shift,)


class Bigrams(nn.Module):
    """A language model that knows the previous token only: hidden states one-hot, head the logarithms."""

    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace())

    def __init__(self, probabilities):
        super().__init__()
        self.base_model = Lookup(torch.eye(len(probabilities)).tolist())
        self.head = nn.Linear(len(probabilities), len(probabilities), bias=False)
        self.head.weight = nn.Parameter(torch.tensor(probabilities).T.log())

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, use_cache=False):
        return SimpleNamespace(logits=self.head(self.base_model(input_ids)[0]))


# what follows token 0, 1, 2
NEXT = [[0.5, 0.3, 0.2], [0.1, 0.5, 0.4], [0.25, 0.25, 0.5]]
AFTER_NEXT = [[0.2, 0.1, 0.7], [0.3, 0.3, 0.4], [0.6, 0.2, 0.2]]


def test_multi_token_prediction_of_three_tokens_by_hand():
    """Tokens 0 1 2: the head predicts 1 after 0 and 2 after 1; the extra head predicts 2 after 0, one token later."""
    tokens = torch.tensor([[0, 1, 2]])
    objective = Objective(Bigrams(NEXT), extra_heads=1)
    losses = objective(tokens)
    as_copy = -math.log(0.2)  # the extra head begins as a copy: P(2 after 0) of the head
    assert losses.summed.tolist() == pytest.approx([-math.log(0.3) - math.log(0.4), as_copy])
    assert losses.predictions.tolist() == [2, 1]

    with torch.no_grad():
        objective.extra_heads[0].weight.copy_(torch.tensor(AFTER_NEXT).T.log())
    losses = objective(tokens)
    assert losses.summed.tolist() == pytest.approx([-math.log(0.3 * 0.4), -math.log(0.7)])
    loss = step_loss(losses, losses.predictions)
    assert loss.item() == pytest.approx(-math.log(0.3 * 0.4) / 2 - math.log(0.7))

    loss.backward()
    # d loss / d logit = (probability - 1 where it is the token) / predictions; column t of a head's gradient: after t
    head = [[0.5 / 2, 0.1 / 2, 0], [-0.7 / 2, 0.5 / 2, 0], [0.2 / 2, -0.6 / 2, 0]]
    extra = [[0.2, 0, 0], [0.1, 0, 0], [-0.3, 0, 0]]
    torch.testing.assert_close(objective.model.head.weight.grad, torch.tensor(head))
    torch.testing.assert_close(objective.extra_heads[0].weight.grad, torch.tensor(extra))


def test_documents_by_hand():
    """0 1 | 2 0 1, then padding: nothing is predicted across the boundary or of the padding."""
    tokens = torch.tensor([[0, 1, 2, 0, 1, 0, 0]])
    documents = torch.tensor([[5, 5, 6, 6, 6, -1, -1]])
    none = -100
    assert labels_ahead(tokens, 0).tolist() == [[1, 2, 0, 1, 0, 0, none]]
    assert labels_ahead(tokens, 0, documents).tolist() == [[1, none, 0, 1, none, none, none]]
    assert labels_ahead(tokens, 1, documents).tolist() == [[none, none, 1, none, none, none, none]]
    assert labels_ahead(tokens, 6).tolist() == [[none] * 7]
    assert count_predictions(tokens, 2, documents).tolist() == [3, 1, 0]
    objective = Objective(Bigrams(NEXT), extra_heads=2)
    losses = objective(tokens, documents)
    assert losses.summed.tolist() == pytest.approx([-math.log(0.3 * 0.25 * 0.3), -math.log(0.25), 0])
    assert step_loss(losses, losses.predictions).item() == pytest.approx(
        -math.log(0.3 * 0.25 * 0.3) / 3 - math.log(0.25)
    )
    each = objective.token_losses(tokens, documents)
    expected = [[-math.log(0.3), 0, -math.log(0.25), -math.log(0.3), 0, 0, 0]]
    torch.testing.assert_close(each, torch.tensor(expected))


def test_equals_transformers_own_loss(make_llama):
    model = make_llama()
    tokens = torch.randint(304, (3, 12), generator=torch.Generator().manual_seed(0))
    losses = Objective(model, chunk=5)(tokens)
    expected = model(input_ids=tokens, labels=tokens).loss
    torch.testing.assert_close(step_loss(losses, losses.predictions), expected)


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_against_the_obvious_way(make_llama, tied):
    model = make_llama(tied=tied).double()
    objective = Objective(model, extra_heads=2, chunk=4)
    with torch.no_grad():
        objective.extra_heads[1].weight.mul_(1.5)
    tokens = torch.randint(304, (2, 7), generator=torch.Generator().manual_seed(0))
    losses = objective(tokens)
    ours = torch.autograd.grad(step_loss(losses, losses.predictions), list(objective.parameters()))

    hidden = model.model(input_ids=tokens)[0]
    expected = sum(
        functional.cross_entropy((hidden[:, : -1 - ahead] @ weight.T).flatten(0, 1), tokens[:, 1 + ahead :].flatten())
        for ahead, weight in enumerate([model.lm_head.weight, *(head.weight for head in objective.extra_heads)])
    )
    theirs = torch.autograd.grad(expected, list(objective.parameters()))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_micro_batches_add_up(make_llama):
    objective = Objective(make_llama(), extra_heads=1)
    tokens = torch.randint(304, (5, 9), generator=torch.Generator().manual_seed(0))
    documents = torch.arange(9).repeat(5, 1) // torch.tensor([[2], [3], [4], [5], [9]])
    predictions = count_predictions(tokens, 1, documents)
    gradients = []
    for rows in (5, 2):
        objective.zero_grad()
        parts = zip(tokens.split(rows), documents.split(rows), strict=True)
        losses = [step_loss(objective(*part), predictions) for part in parts]
        sum(losses).backward()
        gradients.append([sum(losses).detach(), *(parameter.grad for parameter in objective.parameters())])
    assert predictions.tolist() == [4 + 6 + 6 + 7 + 8, 0 + 3 + 4 + 5 + 7]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_extra_heads_are_parameters_of_their_own(make_llama):
    model = make_llama()
    model.requires_grad_(False)
    before = model.lm_head.weight.clone()
    objective = Objective(model, extra_heads=2)
    names = {name for name, parameter in objective.named_parameters() if parameter.requires_grad}
    assert names == {"extra_heads.0.weight", "extra_heads.1.weight"}
    assert all(torch.equal(head.weight, before) for head in objective.extra_heads)
    losses = objective(torch.arange(8).view(1, 8))
    step_loss(losses, losses.predictions).backward()
    assert all(head.weight.grad.any() for head in objective.extra_heads)
    assert all(parameter.grad is None for parameter in model.parameters())
    with torch.no_grad():
        objective.extra_heads[0].weight.zero_()
    assert torch.equal(model.lm_head.weight, before)
    assert not any("extra" in name for name, _ in model.named_parameters())


def test_names_do_not_change_the_models_own(make_llama):
    model = make_llama()
    own = {name for name, _ in model.named_parameters()}
    names = {name for name, _ in Objective(model, 1).named_parameters()}
    assert names == {f"model.{name}" for name in own} | {"extra_heads.0.weight"}


def test_other_inputs_reach_the_base():
    model = Bigrams(NEXT)
    objective, tokens = Objective(model), torch.tensor([[0, 1, 2]])
    # a constant added to every hidden dimension: no effect where head rows have one sum, here they have not
    assert not torch.equal(objective(tokens, shift=1.0).summed, objective(tokens).summed)
    assert not torch.equal(objective.token_losses(tokens, shift=1.0), objective.token_losses(tokens))


def test_autocast(make_llama):
    objective = Objective(make_llama(), extra_heads=1)
    tokens = torch.randint(304, (3, 12), generator=torch.Generator().manual_seed(0))
    exact = objective(tokens).summed
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = objective(tokens)
    assert losses.summed.dtype == torch.float32
    torch.testing.assert_close(losses.summed, exact, rtol=1e-2, atol=0)
    step_loss(losses, losses.predictions).backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in objective.parameters())


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")  # renamed in transformers 5
def test_gradient_checkpointing(make_llama):
    tokens = torch.arange(10).view(1, 10)
    gradients = []
    for checkpointing in (False, True):
        model = make_llama().train()
        if checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        Objective(model)(tokens).summed.sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_chunk(make_llama, monkeypatch):
    sizes, original = set(), torch.mm
    monkeypatch.setattr(torch, "mm", lambda *args, out: sizes.add(len(out)) or original(*args, out=out))
    objective = Objective(make_llama(), extra_heads=1, chunk=3)
    objective(torch.arange(14).view(2, 7))
    assert sizes == {3, 1}
    objective.token_losses(torch.arange(14).view(2, 7))
    assert sizes == {3, 1}


def test_refusals(make_llama):
    with pytest.raises(InputError, match="extra_heads is -1"):
        Objective(make_llama(), -1)
