"""The tokenizer of a helper model, or of the source model, as it is."""

from tasks.contract import InputError
from tasks.pretrained import load_tokenizer
from tasks.tokenizer.convert import write_json
from tasks.tokenizer.round_trip import check_round_trip
from tasks.tokenizer.self_check import AWKWARD
from tasks.tokenizer.strategies import Checked, Job, Made, Strategy
from tasks.tokenizer.tokenizer_copy import PLAIN_CLASS, copy_settled, read_json

# Of a strategy: its input, and what that is in errors.
_ROLES = {"existing": ("helper", "helper tokenizer"), "source": ("source_tokenizer", "source tokenizer")}
_MOST_UNKNOWN = 0.5


def make(job: Job) -> Made:
    """Copy the tokenizer, and see to it that transformers reads tokenizer.json as it stands.

    The class that some tokenizers name puts parts of its own in their place (a space before the text, for instance),
    and not the same ones in every version of transformers.
    """
    given, role = _ROLES[job.config.strategy]
    tokenizer = copy_settled(job.inputs[given], job.out, role)
    theirs = load_tokenizer(job.out, role).backend_tokenizer
    if all(tokenizer.encode(text).ids == theirs.encode(text).ids for text in AWKWARD):
        return Made(tokenizer)
    path = job.out / "tokenizer_config.json"
    config = read_json(path, role)
    before = (read_json(job.out / "tokenizer.json", role).get("pre_tokenizer") or {}).get("add_prefix_space")
    space = {} if before is None else {"add_prefix_space": before}
    write_json(path, {**config, **space, "tokenizer_class": PLAIN_CLASS})
    named = config.get("tokenizer_class")
    return Made(
        tokenizer, {"notes": [f"tokenizer_class is {PLAIN_CLASS}: {named} gives other ids than tokenizer.json"]}
    )


def check(job: Job, made: Made) -> Checked:
    """What becomes of held-out text; a tokenizer that normalises is taken as it is, and the report says what is lost.

    Raises:
        InputError: held-out text is unknown to the tokenizer for the most part: it is not one of this language.
    """
    role = _ROLES[job.config.strategy][1]
    loaded = load_tokenizer(job.out, role)
    found = check_round_trip(made.tokenizer, loaded, job.validation())
    if found.unknown_share > _MOST_UNKNOWN:
        raise InputError(
            f"{role}: {found.unknown_share:.0%} of the tokens of held-out text are unknown to it; "
            "take a tokenizer that knows this language"
        )
    found.notes += made.report.get("notes", [])
    if "eos" not in found.special_tokens:
        found.notes.append("no EOS token is named: documents are packed without a mark of their end")
    if found.same_ids < 1.0:
        found.notes.append("transformers gives some texts other ids than tokenizer.json; training reads that")
    return found.checked()


STRATEGY = Strategy(make=make, check=check, reads_text=False)
