"""The source vocabulary with new tokens; see `tasks.tokenizer.expand`."""

from tasks.pretrained import load_backend, load_tokenizer
from tasks.tokenizer.expand import expand_tokenizer
from tasks.tokenizer.round_trip import check_round_trip
from tasks.tokenizer.strategies import Checked, Job, Made, Strategy

_SUMMARY = (
    "new_tokens",
    "new_tokens_produced",
    "bridges",
    "target_tokens_before",
    "target_tokens_after",
    "source_lines",
)


def make(job: Job) -> Made:
    """Choose the new tokens from the text of all languages and put them into the source tokenizer.

    Raises:
        InputError: the source tokenizer cannot be expanded, or the text gives too few new tokens.
    """
    source = job.inputs["source_tokenizer"]
    report = expand_tokenizer(source, job.texts, job.source_texts, job.config, job.out)
    return Made(load_backend(job.out, "target tokenizer"), report)


def check(job: Job, made: Made) -> Checked:
    """What the expansion has proved of itself, and what becomes of held-out text."""
    loaded = load_tokenizer(job.out, "target tokenizer")
    found = check_round_trip(made.tokenizer, loaded, job.validation())
    if found.same_ids < 1.0:
        found.notes.append("transformers gives some texts other ids than tokenizer.json, as for the source tokenizer")
    if job.source_texts is None:
        found.notes.append("no text of the source language was given: unchanged cuts are proved on other text alone")
    if made.report["tokenizer_model"].startswith("dropped"):
        found.notes.append(f"tokenizer.model is {made.report['tokenizer_model']}")
    checked = found.checked()
    summary = {name: made.report[name] for name in _SUMMARY if name in made.report}
    return Checked({**checked.report, "expansion": made.report}, {**checked.summary, **summary}, checked.sentences)


STRATEGY = Strategy(make=make, check=check)
