"""What the most frequent tokens are made of: coverage weighted by how often a token occurs, by origin."""

from typing import Any

import numpy as np
import pyarrow as pa

from tasks.report.data import Row

BANDS = (100, 1_000, 10_000)


def bands(tokens: pa.Table, evidence: "np.ndarray[Any, np.dtype[np.bool_]]") -> list[Row]:
    """The 100, 1,000, 10,000 most frequent tokens and all tokens: their share of the text and what made their rows.

    Args:
        tokens: rows of tokens.parquet: origin, frequency.
        evidence: bool [tokens]: the token's row was made neither by a fallback nor at random.

    Returns:
        tokens (how many), text_share, covered (share of these tokens' occurrences with evidence) and origins
        [{origin, share of these tokens' occurrences}], largest share of all text first. Empty where no token has a
        frequency.
    """
    frequency = np.nan_to_num(tokens["frequency"].to_numpy().astype(np.float64))
    total = frequency.sum()
    if total == 0:
        return []
    names, codes = np.unique(np.array(tokens["origin"].to_pylist(), dtype=object).astype(str), return_inverse=True)
    by_share = np.argsort(-np.bincount(codes, weights=frequency), kind="stable")
    order = np.argsort(-frequency, kind="stable")
    used = int((frequency > 0).sum())
    found = []
    for size in [*(size for size in BANDS if size < used), used]:
        chosen = order[:size]
        text = frequency[chosen].sum()
        shares = np.bincount(codes[chosen], weights=frequency[chosen], minlength=len(names)) / text
        found.append(
            {
                "tokens": size,
                "text_share": float(text / total),
                "covered": float(frequency[chosen][evidence[chosen]].sum() / text),
                "origins": [{"origin": str(names[n]), "share": float(shares[n])} for n in by_share.tolist()],
            }
        )
    return found
