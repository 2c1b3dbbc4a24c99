"""A command as a child process, with its time, processor time and peak memory.

A process takes over the peak memory of the one that starts it (at least on Linux), so this file starts as a small
process of its own between the two.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TOLERATED = 0.15  # processors


@dataclass(frozen=True)
class Measured:
    """Figures of a process that ended well.

    Attributes:
        seconds: from its start to its end.
        processor_seconds: of it and its children, in all threads.
        peak_bytes: most resident memory of it or one of its children; pages of mapped files count.
        others: processors that everything else on the machine used meanwhile, in the mean.
    """

    seconds: float
    processor_seconds: float
    peak_bytes: int
    others: float = 0.0

    def disturbed(self, threads: int, processors: int) -> bool:
        """Whether others left less than `threads` of the `processors`, so that time says nothing."""
        return self.others + threads > processors + TOLERATED


def measure(command: Sequence[str], threads: int, environment: dict[str, str] | None = None) -> Measured:
    """Run `command` on `threads` processors (and with as many OpenMP threads).

    Raises:
        RuntimeError: it ends with another code than 0; the message has its last lines.
    """
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        arguments = [sys.executable, "-S", "-E", __file__, str(result), str(threads), *command]
        variables = {**os.environ, "OMP_NUM_THREADS": str(threads), **(environment or {})}
        busy, started = busy_seconds(), time.perf_counter()
        with log.open("wb") as output:
            subprocess.run(arguments, env=variables, check=True, stdout=output, stderr=subprocess.STDOUT)
        busy, passed = busy_seconds() - busy, time.perf_counter() - started
        figures = json.loads(result.read_text())
        if figures.pop("code") != 0:
            last = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(command)} failed; its last lines:\n{last}")
    return Measured(**figures, others=max(0.0, busy - figures["processor_seconds"]) / passed)


def busy_seconds() -> float:
    """Processor seconds that the whole machine has used since its start (what a host takes away included)."""
    import psutil  # not in the small process in between

    times = psutil.cpu_times()
    return float(
        times.user + times.system + sum(getattr(times, name, 0.0) for name in ("nice", "irq", "softirq", "steal"))
    )


def processors(count: int) -> set[int]:
    """The first `count` processors that this process may use; nothing where the system cannot bind processes."""
    return set(sorted(os.sched_getaffinity(0))[:count]) if hasattr(os, "sched_getaffinity") else set()


def main(result: str, threads: str, *command: str) -> None:
    """Run the command and write its figures to the file `result`."""
    if bound := processors(int(threads)):
        os.sched_setaffinity(0, bound)
    started = time.perf_counter()
    process = os.posix_spawnp(command[0], list(command), os.environ)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - started
    unit = 1 if sys.platform == "darwin" else 1024
    figures = {
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * unit,
        "code": os.waitstatus_to_exitcode(status),
    }
    Path(result).write_text(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
