"""What a vocabulary adapter costs, in floating-point operations a token."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AdapterSizes:
    """What the cost depends on.

    Attributes:
        target: tokens of the new vocabulary.
        source: tokens of the source vocabulary.
        width: d, of embeddings and hidden states.
        body: parameters of the model's matrix products between embeddings and head.
        input_entries: entries of a sparse input adapter.
        output_entries: entries of a sparse output adapter.
        step_tokens: tokens over which the head's matrix is made once (a step's, or a micro batch's).
        distinct: distinct tokens divided by tokens, in a micro batch.
    """

    target: int
    source: int
    width: int
    body: int
    input_entries: int = 0
    output_entries: int = 0
    step_tokens: int = 1
    distinct: float = 1.0


@dataclass(frozen=True)
class TokenCost:
    """Operations a token, a multiplication and an addition counted as two.

    Attributes:
        forward: of the forward pass.
        backward: of the backward pass: gradients of activations throughout (they are needed down to the input rows)
            and of what is trained.
    """

    forward: float
    backward: float

    @property
    def total(self) -> float:
        """Both passes."""
        return self.forward + self.backward


def plain_cost(sizes: AdapterSizes) -> TokenCost:
    """Training the embeddings and head of the new vocabulary: looking up a row is free, the head is 2·V_t·d."""
    head = 2 * sizes.target * sizes.width
    return TokenCost(2 * sizes.body + head, 2 * sizes.body + 2 * head)


def dense_cost(sizes: AdapterSizes) -> TokenCost:
    """Training two dense adapters: rows of A times E_in, 2·V_s·d; h·Eᵀ, 2·V_s·d; that times Aᵀ, 2·V_t·V_s.

    For Mistral-7B (d = 4096, V_s = 32,000, 6.979 G parameters in the layers), V_t = 50,000 and no repeated token the
    forward pass takes 13.96 (layers) + 0.26 (input rows) + 0.26 (old logits) + 3.20 (new logits) = 17.68 GFLOP a token,
    and the original model 13.96 + 0.26 = 14.22: the 17.7 and 14.2 of Han et al. 2025, appendix D, which are therefore
    costs of a forward pass.
    """
    rows = sizes.distinct * 2 * sizes.source * sizes.width
    old, new = 2 * sizes.source * sizes.width, 2 * sizes.target * sizes.source
    # Backward: the rows' weights; the new logits' adapter and old logits; from these the hidden states.
    return TokenCost(2 * sizes.body + rows + old + new, 2 * sizes.body + rows + old + 2 * new)


def sparse_cost(sizes: AdapterSizes) -> TokenCost:
    """Training two sparse adapters: that of `plain_cost`, the mean row's entries · 2·d, and the product A·E_out a step.

    The rows' part takes each token's row to be of mean length.
    """
    plain = plain_cost(sizes)
    rows = sizes.distinct * 2 * sizes.width * sizes.input_entries / sizes.target
    product = 2 * sizes.width * sizes.output_entries / sizes.step_tokens
    return TokenCost(plain.forward + rows + product, plain.backward + rows + product)
