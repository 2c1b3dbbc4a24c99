"""Alignment error rate (F. J. Och, H. Ney: A Systematic Comparison of Various Statistical Alignment Models, 2003)."""

import numpy as np

from tasks.alignment.links import Int64, Links


def alignment_error_rate(found: Links, sure: Links, possible: Links) -> float:
    """AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), over all pairs together.

    Args:
        found: links A of the aligner, N pairs.
        sure: sure links S of the gold standard, the same N pairs.
        possible: possible links P; those of S count as possible whether they are among them or not.

    Returns:
        A share from 0 (best) to 1; 0 where neither A nor S has a link.

    Raises:
        ValueError: the three have different numbers of pairs.
    """
    if not len(found) == len(sure) == len(possible):
        raise ValueError(f"different numbers of pairs: found {len(found)}, sure {len(sure)}, possible {len(possible)}")
    positions = [array for links in (found, sure, possible) for array in (links.source, links.target)]
    size = 1 + max((int(array.max()) for array in positions if len(array)), default=0)
    a, s, p = (_codes(links, size) for links in (found, sure, possible))
    p = np.union1d(p, s)
    total = len(a) + len(s)
    hits = np.isin(a, s, assume_unique=True).sum() + np.isin(a, p, assume_unique=True).sum()
    return 0.0 if total == 0 else 1.0 - float(hits) / total


def _codes(links: Links, size: int) -> Int64:
    """One number per distinct link."""
    codes: Int64 = np.unique((links.pair_ids() * size + links.source) * size + links.target)
    return codes
