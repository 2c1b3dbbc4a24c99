"""A new byte-level BPE vocabulary."""

from tasks.pretrained import load_tokenizer
from tasks.tokenizer.byte_level_bpe import NAMES, train_byte_level_bpe
from tasks.tokenizer.convert import write_fast
from tasks.tokenizer.round_trip import check_round_trip
from tasks.tokenizer.strategies import Checked, Job, Made, Strategy


def make(job: Job) -> Made:
    """Train on the text of all languages and write.

    Raises:
        InputError: there is no text, or it supports no vocabulary of that size.
    """
    source = job.source_tokens()
    names = source.names(NAMES)
    tokenizer = train_byte_level_bpe(job.texts(), job.config, names)
    source.add_to(tokenizer)
    write_fast(tokenizer, source.settings(names), job.out)
    return Made(tokenizer)


def check(job: Job, made: Made) -> Checked:
    """Every held-out text comes back, and transformers gives the same ids from the files.

    Raises:
        RuntimeError: it does not.
    """
    found = check_round_trip(made.tokenizer, load_tokenizer(job.out, "target tokenizer"), job.validation())
    if found.round_trip < 1.0 or found.same_ids < 1.0:
        raise RuntimeError(
            f"tokenizer self-check: {found.round_trip:.4%} of {found.sentences} validation sentences decode to "
            f"themselves and {found.same_ids:.4%} have transformers' ids; the first is {found.failures[0]!r}"
        )
    return found.checked()


STRATEGY = Strategy(make=make, check=check)
