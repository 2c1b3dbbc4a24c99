"""Where a vocabulary adapter meets its model: input rows going in, hidden states coming out."""

from typing import Any

import torch
from torch import nn

from tasks.contract import InputError
from tasks.training.lm_head import LMHead, base_model, lm_head


def input_scale(model: Any) -> float:
    """The factor that the input embedding module puts on its rows (Gemma 3: the square root of the width), mostly 1.

    A factor that the model applies later, to whatever embeddings it is given (Gemma 1 and 2), is not part of it.

    Raises:
        InputError: the model has no table of input embeddings.
    """
    embeddings = model.get_input_embeddings()
    if not isinstance(embeddings, nn.Embedding):
        raise InputError(f"{type(model).__name__} has no table of input embeddings: vocabulary adapters need one")
    return float(getattr(embeddings, "embed_scale", 1.0))


def source_head(model: Any) -> LMHead:
    """The LM head of `model`, whose matrix is an `nn.Linear` that can be exchanged.

    Raises:
        InputError: it has no such head.
    """
    if not isinstance(model.get_output_embeddings(), nn.Linear):
        raise InputError(f"{type(model).__name__} has no linear LM head: vocabulary adapters need one")
    return lm_head(model)


def last_hidden(model: Any, embedded: torch.Tensor, **inputs: Any) -> torch.Tensor:
    """What the LM head is given, final norm included: [sequences, length, d].

    Args:
        model: a causal language model of transformers.
        embedded: [sequences, length, d]: the rows of the tokens, scaled as `input_scale` says.
        inputs: attention_mask, position_ids and the like.
    """
    hidden: torch.Tensor = base_model(model)(inputs_embeds=embedded, use_cache=False, **inputs)[0]
    return hidden


@torch.no_grad()
def check_ends(model: Any) -> None:
    """Refuse a model that does more at its two ends than look up a row, scale it, and what `LMHead` does.

    A few tokens are passed through the model and through its parts; the logits must agree. Done once, it costs less
    than a step.

    Raises:
        InputError: they do not.
    """
    head, scale, table = source_head(model), input_scale(model), model.get_input_embeddings().weight
    ids = torch.arange(min(4, len(table)), device=table.device)[None]
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        wanted = model(input_ids=ids, use_cache=False).logits.float()
        logits = head.logits(last_hidden(model, table[ids] * scale)).float()
    except (ValueError, RuntimeError, TypeError) as error:
        raise InputError(f"{type(model).__name__} cannot be used with vocabulary adapters: {error}") from error
    finally:
        for module, training in before:
            module.training = training
    tolerance = (1e-3 if table.dtype in (torch.float32, torch.float64) else 5e-2) * float(wanted.abs().max() + 1e-3)
    if wanted.shape != logits.shape or not float((wanted - logits).abs().max()) <= tolerance:
        raise InputError(
            f"{type(model).__name__} does more with token ids or logits than look up a row, scale and cap: vocabulary "
            "adapters would not train what the merged model computes; use another strategy for this model"
        )
