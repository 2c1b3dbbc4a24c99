"""Leaving at once when a person interrupts a run that has a temporary Prefect server.

An interrupt from a terminal reaches that server too and ends it; Prefect would then try for minutes to report to a
server that is gone. Stages have been stopped and the run's record is written by then, so the process can just go.
"""

import os
import sys
from typing import NoReturn

_state = {"leave": False}


def leave_when_interrupted() -> None:
    """From now on, an interrupted run ends this process (see `ends_process`)."""
    _state["leave"] = True


def ends_process(error: BaseException) -> bool:
    """Whether `error` is an interrupt on which this process is to be left at once."""
    return _state["leave"] and isinstance(error, KeyboardInterrupt | SystemExit)


def leave(error: BaseException) -> NoReturn:
    """End this process and its children without further ado; the exit code is that of the interrupt."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    sys.stdout.flush()
    sys.stderr.write("interrupted; what is done is kept, the same command goes on from there\n")
    sys.stderr.flush()
    os._exit(error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 130)
