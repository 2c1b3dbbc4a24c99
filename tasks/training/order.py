"""Which sequences a step trains on: a fresh permutation for every pass over the data, known from the step alone."""

import functools

import numpy as np
import numpy.typing as npt


@functools.lru_cache(maxsize=2)
def permutation(sequences: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The order of the sequences in pass number `epoch`: [sequences] int64, each of 0…sequences-1 once. Read only."""
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=(epoch,))))
    order = generator.permutation(sequences)
    order.flags.writeable = False
    return order


def batch_indices(step: int, batch_size: int, sequences: int, seed: int) -> npt.NDArray[np.int64]:
    """The sequences of step `step` (counted from 0): [batch_size] int64.

    Steps take consecutive pieces of the passes laid end to end, so a batch may hold the end of one pass and the
    beginning of the next, and nothing is left out. A pure function: resuming needs only the step.
    """
    positions = np.arange(step * batch_size, (step + 1) * batch_size)
    epochs, places = np.divmod(positions, sequences)
    indices = np.empty(batch_size, dtype=np.int64)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        indices[here] = permutation(sequences, seed, int(epoch))[places[here]]
    return indices
