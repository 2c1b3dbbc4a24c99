"""The stage `training` (or `pretraining`) without a flow: `accelerate launch -m tasks.training.run REQUEST.json`.

REQUEST.json holds "stage"; "config", its configuration; "inputs", the folder of each input; "out", the folder of the
model to be made; "work", where tokens and checkpoints are kept (over several machines a folder that all of them see).
The same command goes on from the last checkpoint, and does nothing once the model is there. torchrun and plain
`python -m` start it as well. The figures of the run are written to result.json in the working folder.
"""

import dataclasses
import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from configs.faults import describe_errors
from configs.schema import key_fields
from tasks.child import die_with_parent
from tasks.contract import InputError, Stage, StageContext, load_stage
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
        if context.out.is_dir() and any(context.out.iterdir()):
            _refuse_another(context)
            log.info("%s is there already, from the same configuration and inputs", context.out)
            return 0
        context.work.mkdir(parents=True, exist_ok=True)
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
        text = json.dumps({**dataclasses.asdict(result), "made_from": _made_from(context)}, indent=2)
        (context.work / RESULT).write_text(text + "\n", encoding="utf-8")
        log.info("%s is written; its figures are in %s", context.out, context.work / RESULT)
    return 0


def _request(file: Path) -> tuple[Stage, StageContext]:
    """What `file` asks for.

    Raises:
        InputError: it cannot be read, or its values do not fit.
    """
    request: Any = {}
    try:
        request = json.loads(file.read_text(encoding="utf-8"))
        return read_request(request)
    except ValidationError as error:
        found = describe_errors(error, load_stage(request["stage"]).config, None, None)
        raise InputError(f"{file}: config: {found}") from error
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{file} is no request that can be used: {error!s}") from error


def _made_from(context: StageContext) -> dict[str, Any]:
    """What decides the model, as JSON values."""
    return {"config": key_fields(context.config), "inputs": {n: str(path) for n, path in context.inputs.items()}}


def _refuse_another(context: StageContext) -> None:
    """Nothing, if what is in the folder of the model is what this request has made before.

    Raises:
        InputError: it is something else.
    """
    file = context.work / RESULT
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if known.get("made_from") != _made_from(context):
        raise InputError(
            f"out: {context.out} is not empty, and not from this request: name a folder that is not there, or remove "
            "what is in it"
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: accelerate launch -m tasks.training.run REQUEST.json")
    sys.exit(main(sys.argv[1]))
