"""Expected counts of word pairs, straight from the parameter arrays of the last pass."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tasks.alignment.aligner import WordPairs
from tasks.alignment.bitext import Bitext
from tasks.alignment.engine.columns import Column
from tasks.alignment.engine.maximisation import add_up
from tasks.alignment.engine.parallel import Threads
from tasks.alignment.engine.shards import Resources, Shards, distinct_pairs, index_parts
from tasks.alignment.links import Int32

LEAST_COUNT = 0.01  # smaller expected counts are dropped; nearly all parameters are, and none of them decides a row


@dataclass(frozen=True)
class Counted:
    """By what the last pass counts.

    Attributes:
        bitext: the same sentence pairs, over the vocabulary that is counted.
        corpus: int32 [N], corpus of each pair.
        corpora: number of corpora.
    """

    bitext: Bitext
    corpus: Int32
    corpora: int

    def same_as(self, words: Bitext) -> bool:
        """Whether counting by the parameters of a model of `words` gives these counts."""
        return self.corpora == 1 and self.bitext.source is words.source and self.bitext.target is words.target

    def shards(self, like: Shards, resources: Resources, threads: Threads) -> Shards:
        """The index of the counted pairs (source words of corpus c are numbered from c * source words on)."""
        spread = self.bitext
        if self.corpora > 1:
            corpus = np.repeat(self.corpus, np.diff(spread.source_offsets))
            numbers = corpus.astype(np.int64) * spread.source_words + spread.source
            if self.corpora * spread.source_words >= 2**31:
                raise OverflowError("corpora times source words must stay below 2^31: join corpora")
            spread = replace(spread, source=numbers.astype(np.int32), source_words=self.corpora * spread.source_words)
        return index_parts(spread, like, resources, threads, "counted")


def expected_blocks(shards: Shards, counts: tuple[Column, ...], counted: Counted) -> Iterator[WordPairs]:
    """Word pairs with a count of at least `LEAST_COUNT` in a direction, ordered by corpus, source, target.

    Args:
        shards: index by which was counted.
        counts: by shard, float64 [parameters, 2].
        counted: what was counted.
    """
    scratch = np.zeros((shards.target_words if len(shards.shards) > 1 else 0, 2))
    words = counted.bitext.source_words
    for start, end in shards.groups():
        firsts, spans = shards.rows(start, end)
        target, sums = shards.targets(spans), shards.read(counts, spans)
        add_up(firsts, target, sums, scratch, np.zeros(end - start))
        source, places = distinct_pairs(start, firsts, target, (sums >= LEAST_COUNT).any(axis=1))
        corpus, word = np.divmod(source.astype(np.int32), words)
        yield WordPairs(corpus, word, target[places], sums[places, 0], sums[places, 1])
