"""Arrays that grow."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)


def grown(array: npt.NDArray[Number], size: int) -> npt.NDArray[Number]:
    """`array`, or a copy of it with twice the room or more (zeros) where it is shorter than `size`."""
    if len(array) >= size:
        return array
    result = np.zeros(max(size, 2 * len(array)), dtype=array.dtype)
    result[: len(array)] = array
    return result
