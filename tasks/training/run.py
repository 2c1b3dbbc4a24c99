"""The stage `training` (or `pretraining`) without a flow: `accelerate launch -m tasks.training.run REQUEST.json`.

REQUEST.json holds "stage"; "config", its configuration; "inputs", the folder of each input; "out", the folder of the
model to be made; "work", where tokens and checkpoints are kept (over several machines a folder that all of them see).
The same command goes on from the last checkpoint. torchrun and plain `python -m` start it as well. The figures of the
run are written to result.json in the working folder.
"""

import dataclasses
import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from tasks.child import die_with_parent
from tasks.contract import InputError, Stage, StageContext
from tasks.isolation import read_request
from tasks.training.durable import empty_folder, publish_folder
from tasks.training.launch import ProcessFailed

RESULT = "result.json"
LAUNCHED = ("WORLD_SIZE", "ACCELERATE_MIXED_PRECISION")  # set by torchrun and by `accelerate launch`

log = logging.getLogger(__name__)


def main(request_file: str) -> int:
    """Run the stage that `request_file` asks for; 0 when it is done, 2 when data or configuration cannot be used."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    rank = int(os.environ.get("RANK", "0"))
    if any(name in os.environ for name in LAUNCHED):
        die_with_parent(os.getppid())  # a launcher that is killed leaves nothing running
    try:
        stage, context = _request(Path(request_file))
        unfinished = context.out.with_name(f".{context.out.name}.unfinished")
        result = stage.run(replace(context, out=empty_folder(unfinished) if rank == 0 else unfinished))
    except InputError as error:
        log.error("process %d: %s", rank, error)
        return 2
    except ProcessFailed as error:
        log.error("%s", error)
        return 1
    if rank == 0:
        publish_folder(unfinished, context.out)
        text = json.dumps(dataclasses.asdict(result), indent=2)
        (context.work / RESULT).write_text(text + "\n", encoding="utf-8")
        log.info("%s is written; its figures are in %s", context.out, context.work / RESULT)
    return 0


def _request(file: Path) -> tuple[Stage, StageContext]:
    """What `file` asks for.

    Raises:
        InputError: it cannot be read, or what it asks for cannot be done.
    """
    try:
        stage, context = read_request(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{file} is no request that can be used: {error!s}") from error
    if context.out.is_dir() and any(context.out.iterdir()):
        raise InputError(f"out: {context.out} is not empty: name a folder that is not there, or remove what is in it")
    context.work.mkdir(parents=True, exist_ok=True)
    return stage, context


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: accelerate launch -m tasks.training.run REQUEST.json")
    sys.exit(main(sys.argv[1]))
