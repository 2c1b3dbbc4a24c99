"""What training of vocabulary adapters minimises, in the form of `Objective`."""

from typing import Any

import torch
from torch import nn

from tasks.training.adapter import AdaptedModel
from tasks.training.linear_cross_entropy import IGNORED
from tasks.training.objective import Losses, labels_ahead


class AdaptedObjective(nn.Module):
    """An adapted model with its loss, prediction of the next token; used like an `Objective` without extra heads.

    The auxiliary loss is not part of it: it belongs to a step, not to a batch (`AdaptedModel.auxiliary_loss`).

    Args:
        model: the adapted model; its adapters are the parameters 'model.input_adapter.…' and 'model.output_adapter.…'.
    """

    def __init__(self, model: AdaptedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, documents: torch.Tensor | None = None, **inputs: Any) -> Losses:
        """Losses of a batch.

        Args:
            tokens: [batch, length] int64, of the new vocabulary.
            documents: [batch, length] integers, as for `Objective.forward`.
            inputs: what else the base model gets (position_ids, attention_mask).
        """
        hidden, labels = self._prepared(tokens, documents, inputs)
        return Losses(torch.stack([self.model.summed_loss(hidden, labels)]), (labels != IGNORED).sum()[None])

    @torch.no_grad()
    def token_losses(self, tokens: torch.Tensor, documents: torch.Tensor | None = None, **inputs: Any) -> torch.Tensor:
        """The loss at each position, without gradients: [batch, length] float32, 0 where there is no label."""
        hidden, labels = self._prepared(tokens, documents, inputs)
        return self.model.token_losses(hidden, labels).view(tokens.shape)

    def _prepared(
        self, tokens: torch.Tensor, documents: torch.Tensor | None, inputs: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states [batch · length, d] and labels [batch · length]."""
        return self.model.hidden(tokens, **inputs).flatten(0, 1), labels_ahead(tokens, 0, documents).flatten()
