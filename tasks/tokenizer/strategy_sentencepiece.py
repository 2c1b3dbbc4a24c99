"""A new SentencePiece vocabulary, BPE or unigram, converted to a Hugging Face tokenizer with the same segmentation."""

from tasks.tokenizer.convert import fast_tokenizer, write_sentencepiece
from tasks.tokenizer.self_check import check_tokenizer
from tasks.tokenizer.sentencepiece_training import NAMES, train_sentencepiece
from tasks.tokenizer.strategies import Checked, Job, Made, Strategy


def make(job: Job) -> Made:
    """Train on the text of all languages, convert and write.

    Raises:
        InputError: there is no text, or the vocabulary size does not fit it.
    """
    source = job.source_tokens()
    names = source.names(NAMES)
    model = train_sentencepiece((text for batch in job.texts() for text in batch), job.config, names)
    tokenizer = fast_tokenizer(model)
    source.add_to(tokenizer)
    write_sentencepiece(model, tokenizer, job.out, source.settings(names))
    return Made(tokenizer)


def check(job: Job, made: Made) -> Checked:
    """The tokenizer against its SentencePiece model on held-out text.

    Raises:
        RuntimeError: they differ, or a text does not come back.
    """
    found = check_tokenizer((job.out / "tokenizer.model").read_bytes(), made.tokenizer, job.validation())
    summary = {
        "round_trip": found.round_trip,
        "same_ids_as_sentencepiece": found.same_ids,
        "awkward_strings_changed": len(found.awkward),
    }
    return Checked(found.as_json(), summary, found.sentences)


STRATEGY = Strategy(make=make, check=check)
