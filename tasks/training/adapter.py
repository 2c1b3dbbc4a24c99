"""A frozen causal language model with a new vocabulary, whose two adapters are trained and then merged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.modeling_outputs import CausalLMOutput

from tasks.contract import InputError
from tasks.training.adapter_dense import DenseAdapter
from tasks.training.adapter_ends import check_ends, input_scale, last_hidden, source_head
from tasks.training.adapter_sparse import SparseAdapter

Adapter = DenseAdapter | SparseAdapter


class AdaptedModel(nn.Module):
    """`model` reading and predicting a new vocabulary through two adapters (VocADT, Han et al. 2025, section 3.1).

    Token w enters as row w of A_in·E_in and is predicted with row w of A_out·E_out (and of A_out·b, where the head has
    a bias b). Only the adapters are trained: every parameter of `model` is frozen until `merge`. A tied model has two
    adapters all the same.

    Args:
        model: a causal language model of transformers; changed in place.
        input_adapter: A_in.
        output_adapter: A_out.
        alpha: weight of `auxiliary_loss`.

    Raises:
        InputError: the model cannot be adapted this way (`check_ends`), or an adapter does not fit it.
    """

    def __init__(self, model: Any, input_adapter: Adapter, output_adapter: Adapter, alpha: float = 0.0) -> None:
        super().__init__()
        _check_fit(model, input_adapter, output_adapter)
        check_ends(model)
        self.model: Any = model.requires_grad_(False)
        self.input_adapter, self.output_adapter, self.alpha = input_adapter, output_adapter, alpha
        self._input_scale = input_scale(model)
        self._kept: torch.Tensor | None = None

    @property
    def config(self) -> Any:
        """The configuration of the wrapped model, of the old vocabulary until `merge`."""
        return self.model.config

    def adapter_parameters(self) -> dict[str, nn.Parameter]:
        """All that is trained, by the names of `named_parameters`."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Input embeddings of new tokens, scaled as the model's own: [..., d] for int64 ids [...].

        Rows are made for the distinct tokens only.
        """
        distinct, place = torch.unique(ids, return_inverse=True)
        rows = self.input_adapter.rows(distinct, self.model.get_input_embeddings().weight)
        embedded = nn.functional.embedding(place, rows)
        return embedded if self._input_scale == 1.0 else embedded * self._input_scale

    def hidden(self, input_ids: torch.Tensor, **inputs: Any) -> torch.Tensor:
        """What the LM head is given: [sequences, length, d] for int64 ids [sequences, length].

        Args:
            input_ids: new tokens.
            inputs: attention_mask, position_ids and the like, as the model takes them.
        """
        return last_hidden(self.model, self.embed(input_ids), **inputs)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None, **inputs: Any) -> CausalLMOutput:
        """Logits of the new tokens, or with `labels` the summed loss instead.

        Args:
            input_ids: int64 [sequences, length], new tokens.
            labels: int64 [sequences, length]: the token to predict at each position (shifted already), -100 for none.
            inputs: attention_mask, position_ids and the like, as the model takes them.

        Returns:
            `logits` [sequences, length, target tokens], or `loss`: summed negative log likelihood in nats, float32,
            without the auxiliary loss.
        """
        inputs.pop("use_cache", None)
        hidden = self.hidden(input_ids, **inputs)
        if labels is None:
            return CausalLMOutput(logits=self.output_adapter.logits(hidden, source_head(self.model)))
        return CausalLMOutput(loss=self.summed_loss(hidden.flatten(0, -2), labels.flatten()))

    def summed_loss(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Summed negative log likelihood (nats, float32) of `labels` int64 [tokens] given hidden states [tokens, d]."""
        return self.output_adapter.summed_loss(hidden, labels, source_head(self.model), self._kept)

    def token_losses(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The losses that `summed_loss` sums, without gradients: float32 [tokens], 0 where nothing is predicted."""
        return self.output_adapter.token_losses(hidden, labels, source_head(self.model))

    def auxiliary_loss(self) -> torch.Tensor:
        """`alpha` times the sum over both adapters of the mean distance of shared tokens' rows from their start.

        To be added once a step to the mean loss of a token (Han et al. 2025, section 3.3).
        """
        return self.alpha * (self.input_adapter.distance() + self.output_adapter.distance())

    @contextmanager
    def one_step(self) -> Iterator[None]:
        """Make the head's matrix once for all micro batches of a step, where the output adapter is sparse.

        The losses' backward passes belong inside; the adapter gets their gradients when the block ends. Of no use
        under DistributedDataParallel, which expects all gradients in the backward pass.
        """
        if not isinstance(self.output_adapter, SparseAdapter) or not torch.is_grad_enabled():
            yield
            return
        matrix = self.output_adapter.product(self.model.get_output_embeddings().weight)
        self._kept = matrix.detach().requires_grad_()
        try:
            yield
            if self._kept.grad is not None:
                matrix.backward(self._kept.grad)  # type: ignore[no-untyped-call]
        finally:
            self._kept = None

    @torch.no_grad()
    def merge(self) -> Any:
        """The wrapped model as an ordinary one of the new vocabulary, all of its parameters trainable again.

        Its input rows are A_in·E_in, its head A_out·E_out, so it is no longer tied; its logits are those of the adapted
        model but for rounding. This object is of no use afterwards.
        """
        head = source_head(self.model)
        rows = self.input_adapter.product(self.model.get_input_embeddings().weight)
        matrix = self.output_adapter.product(head.weight)
        bias = None if head.bias is None else self.output_adapter.product(head.bias)
        put_tables(self.model, rows, matrix, bias)
        return self.model.requires_grad_(True)


def put_tables(model: Any, rows: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Give `model` input embeddings and an LM head of its own, for a vocabulary of another size.

    The modules stay, with what else they do. No token of the new vocabulary is padding until it is said to be.

    Args:
        model: a causal language model of transformers with an `nn.Embedding` and an `nn.Linear` at its ends.
        rows: [tokens, d], the input embeddings.
        matrix: [tokens, d], the head.
        bias: [tokens], the head's bias, or None.
    """
    embeddings, head, size = model.get_input_embeddings(), model.get_output_embeddings(), len(rows)
    embeddings.weight = nn.Parameter(rows)
    embeddings.num_embeddings, embeddings.padding_idx = size, None
    head.weight, head.out_features = nn.Parameter(matrix), size
    head.bias = None if bias is None else nn.Parameter(bias)
    for config in {id(c): c for c in (model.config, model.config.get_text_config())}.values():
        config.tie_word_embeddings = False
        if hasattr(config, "vocab_size"):
            config.vocab_size = size
    if hasattr(model, "vocab_size"):
        model.vocab_size = size


def _check_fit(model: Any, input_adapter: Adapter, output_adapter: Adapter) -> None:
    if input_adapter.target_size != output_adapter.target_size:
        raise InputError(
            f"the input adapter is for {input_adapter.target_size} new tokens, the output adapter for "
            f"{output_adapter.target_size}: they must be for one vocabulary"
        )
    tables = {"input": (input_adapter, model.get_input_embeddings()), "output": (output_adapter, source_head(model))}
    for name, (adapter, table) in tables.items():
        if adapter.source_size > len(table.weight):
            raise InputError(
                f"the {name} adapter reads {adapter.source_size} source tokens, but {type(model).__name__} has "
                f"{len(table.weight)} rows: its mapping belongs to another source model"
            )
        if isinstance(adapter, SparseAdapter) and len(empty := (adapter.offsets.diff() == 0).nonzero()):
            raise InputError(
                f"the {name} adapter has no entry for {len(empty)} new tokens (the first is {int(empty[0])}): their "
                "rows would be 0 for good; give them entries, by a fallback of the mapping or drawn ones"
            )
