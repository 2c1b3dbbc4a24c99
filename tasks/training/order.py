"""Which sequences a step trains on: a fresh permutation for every pass over the data, known from the step alone."""

import functools

import numpy as np
import numpy.typing as npt


def permutation(sequences: int, seed: int, epoch: int, text: int = 0) -> npt.NDArray[np.int64]:
    """The order of the sequences in pass number `epoch` over text number `text`: [sequences] int64, each once."""
    spawn_key = (epoch,) if text == 0 else (epoch, text)
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=spawn_key)))
    return generator.permutation(sequences)


class Passes:
    """The passes over one text laid end to end, each in an order of its own.

    Holds the orders of the two passes used last (8 bytes a sequence each).

    Args:
        sequences: how many sequences the text has.
        seed: of the orders.
        text: number of the text, where several are mixed.
    """

    def __init__(self, sequences: int, seed: int, text: int = 0) -> None:
        self.sequences = sequences
        self._order = functools.lru_cache(maxsize=2)(functools.partial(permutation, sequences, seed, text=text))

    def at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The sequences at `places` ([n] int64, counted from 0 over all passes): [n] int64."""
        epochs, inside = np.divmod(places, self.sequences)
        indices = np.empty(len(places), dtype=np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            indices[here] = self._order(int(epoch))[inside[here]]
        return indices


@functools.lru_cache(maxsize=1)
def _passes(sequences: int, seed: int) -> Passes:
    return Passes(sequences, seed)


def batch_indices(step: int, batch_size: int, sequences: int, seed: int) -> npt.NDArray[np.int64]:
    """The sequences of step `step` (counted from 0): [batch_size] int64.

    Steps take consecutive pieces of the passes laid end to end, so a batch may hold the end of one pass and the
    beginning of the next, and nothing is left out. A pure function: resuming needs only the step.
    """
    return _passes(sequences, seed).at(np.arange(step * batch_size, (step + 1) * batch_size))
