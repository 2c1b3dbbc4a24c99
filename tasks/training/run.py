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
from pathlib import Path

from tasks.child import die_with_parent
from tasks.contract import InputError, no_progress
from tasks.isolation import read_request

RESULT = "result.json"

log = logging.getLogger(__name__)


def main(request_file: str) -> int:
    """Run the stage that `request_file` asks for; 0 when it is done, 2 when data or configuration cannot be used."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    rank = int(os.environ.get("RANK", "0"))
    if "WORLD_SIZE" in os.environ:
        die_with_parent(os.getppid())  # a launcher that is killed leaves nothing running
    try:
        stage, context = read_request(json.loads(Path(request_file).read_text(encoding="utf-8")), no_progress)
        for folder in (context.out, context.work):
            folder.mkdir(parents=True, exist_ok=True)
        result = stage.run(context)
    except InputError as error:
        log.error("process %d: %s", rank, error)
        return 2
    if rank == 0:
        text = json.dumps(dataclasses.asdict(result), indent=2)
        (context.work / RESULT).write_text(text + "\n", encoding="utf-8")
        log.info("%s is written; its figures are in %s", context.out, context.work / RESULT)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: accelerate launch -m tasks.training.run REQUEST.json")
    sys.exit(main(sys.argv[1]))
