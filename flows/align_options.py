"""The options of `langadapt align`: what they mean together, and what contradicts itself."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from configs.schema import AlignmentConfig
    from tasks.alignment.align_text import AlignTextRequest

LEAST_MEMORY = 64 * 2**20
_SIZES = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}

MODEL1 = "--model1/--diagonal"
_MODEL_OPTIONS_READ: dict[str, tuple[str, ...]] = {"eflomal": (MODEL1,), "dictionary": ()}  # the others read all

Aligner = Literal["builtin", "builtin-plus", "fast_align", "eflomal", "dictionary"]
Method = Literal["grow-diag-final-and", "grow-diag-final", "grow-diag", "intersection", "union", "forward", "reverse"]


@dataclass(frozen=True)
class AlignOptions:
    """The options as given; None where not given. Names are those of the command's parameters."""

    source: str | None
    target: str | None
    both: str | None
    fast_align_input: str | None
    max_words: int | None
    lowercase: bool | None
    aligner: Aligner
    symmetrize: Method | None
    model1: bool | None
    variational_bayes: bool | None
    optimize_tension: bool | None
    iterations: int | None
    p_null: float | None
    tension: float | None
    alpha: float | None
    dictionary: Path | None
    priors: Path | None
    favor_diagonal: bool
    fit_tension: bool
    dirichlet: bool
    reverse: bool
    no_null: bool
    table: str | None
    read_table: str | None
    model: Path | None
    force: Path | None
    format: str
    output: Path | None
    counts: Path | None
    count_kind: str
    work: Path | None
    threads: int
    memory: str | None
    quiet: bool

    @property
    def to_stdout(self) -> bool:
        """Whether the links go to standard output."""
        return self.output is None or str(self.output) == "-"

    @property
    def conventions(self) -> bool:
        """Whether fast_align's conventions hold: one of its own options is there."""
        own = (self.favor_diagonal, self.fit_tension, self.dirichlet, self.reverse, self.no_null)
        return self.fast_align_input is not None or any(own)


def check(options: AlignOptions) -> None:
    """Whether the options can be carried out together; to be called before anything is read.

    Raises:
        InputError: they contradict each other.
    """
    from tasks.contract import InputError

    if options.table is not None or options.read_table is not None:
        raise InputError(
            "fast_align's tables as text (-p, -f) are not written or read; use --model DIR and --force DIR"
        )
    inputs = [options.both, options.fast_align_input, options.source or options.target]
    if sum(given is not None for given in inputs) != 1 or (options.source is None) != (options.target is None):
        raise InputError("name the text in one way: --source and --target, or --input, or -i")
    if options.to_stdout and sys.stdout is None:
        raise InputError("standard output is closed; open it, or name a file with --output")
    if options.format == "parquet" and options.to_stdout:
        raise InputError("--format parquet needs --output FILE; standard output takes only text")
    if options.model is not None and options.force is not None:
        raise InputError("--force trains nothing, so there is no --model to save")
    if options.model is not None and not options.aligner.startswith("builtin"):
        raise InputError(f"--model saves what the builtin aligners learn; {options.aligner} gives no tables")
    if options.count_kind == "expected" and options.counts is None:
        raise InputError("--count-kind expected says what --counts FILE is to hold; name the file too")
    if options.count_kind == "expected" and not options.aligner.startswith("builtin"):
        raise InputError(
            f"--count-kind expected: {options.aligner} gives links only; leave it out, or take a builtin aligner"
        )
    if options.model is not None and options.model.exists():
        raise InputError(f"--model {options.model} is there already; name a new folder")
    if options.force is not None:
        _check_force(options)
    _check_model(options)
    if options.no_null and not (options.favor_diagonal or options.tension is not None):
        raise InputError("-N is there with -d only (IBM Model 1 is built with the NULL word)")
    for path in (options.output, options.counts, options.model):
        if path is not None and not path.absolute().parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.absolute().parent}")
    for path in (options.output, options.counts):
        if path is not None and path.is_dir():
            raise InputError(f"{path} is a folder; name a file")
    _check_places(options)


def _check_places(options: AlignOptions) -> None:
    """No result takes the place of another or of what is read."""
    from tasks.contract import InputError

    read = [options.source, options.target, options.both, options.fast_align_input]
    seen = {Path(text).resolve(): "the text that is read" for text in read if text not in (None, "-")}
    results = {
        "--output": None if options.to_stdout else options.output,
        "--counts": options.counts,
        "--model": options.model,
    }
    for name, path in results.items():
        if path is None or (path.exists() and not path.is_file()):  # a pipe or a device may be named twice
            continue
        if path.resolve() in seen:
            raise InputError(f"{name} {path} is also {seen[path.resolve()]}; name another place")
        seen[path.resolve()] = name


def _check_force(options: AlignOptions) -> None:
    """What a saved model has fixed cannot be asked for again."""
    from tasks.contract import InputError

    wrong = ["--aligner"] if options.aligner != "builtin" else []
    wrong += _model_options(options)
    wrong += ["--lowercase"] if options.lowercase is not None else []
    if wrong:
        raise InputError(f"--force takes the model as it was trained; leave out {', '.join(wrong)}")


def _model_options(options: AlignOptions) -> list[str]:
    """The options on the model that are given."""
    given = {
        MODEL1: options.model1 is not None,
        "--variational-bayes/--maximum-likelihood": options.variational_bayes is not None,
        "--optimize-tension/--fixed-tension": options.optimize_tension is not None,
        "-I": options.iterations is not None,
        "-q": options.p_null is not None,
        "-T": options.tension is not None,
        "-a": options.alpha is not None,
        "-d": options.favor_diagonal,
        "-o": options.fit_tension,
        "-v": options.dirichlet,
        "-N": options.no_null,
    }
    return [name for name, there in given.items() if there]


def _check_model(options: AlignOptions) -> None:
    """Options on the model that contradict each other, or that the aligner does not read."""
    from tasks.contract import InputError

    reads = _MODEL_OPTIONS_READ.get(options.aligner)
    unread = [] if reads is None else [name for name in _model_options(options) if name not in reads]
    if unread:
        raise InputError(f"--aligner {options.aligner} does not read {', '.join(unread)}; leave that out")
    diagonal = {
        "-d": options.favor_diagonal,
        "-T": options.tension is not None,
        "-o": options.fit_tension,
        "--optimize-tension": bool(options.optimize_tension),
    }
    wrong = [name for name, there in diagonal.items() if there]
    if options.model1 and wrong:
        raise InputError(f"--model1 has no diagonal, which {', '.join(wrong)} is about; leave out one of them")
    if options.variational_bayes is False and (options.dirichlet or options.alpha is not None):
        prior = "-v" if options.dirichlet else "-a"
        raise InputError(f"--maximum-likelihood has no Dirichlet prior, which {prior} is about; leave out one of them")


def alignment_config(options: AlignOptions, text: dict[str, Any]) -> "AlignmentConfig":
    """The aligner's configuration; `text`: settings of the saved model's text, empty without one.

    Raises:
        InputError: a value is out of range.
    """
    from pydantic import ValidationError

    from configs.schema import AlignmentConfig
    from tasks.contract import InputError

    def chosen(value: Any, own: Any, default: Any) -> Any:
        """A long option, else what fast_align's conventions say, else the default."""
        return value if value is not None else own if options.conventions else default

    method = options.symmetrize or text.get("symmetrization")
    if options.symmetrize is None and (options.conventions or method is None):
        own = "reverse" if options.reverse else "forward"
        method = own if options.conventions else "grow-diag-final-and"
    diagonal = options.favor_diagonal or options.tension is not None
    values = {
        "aligner": options.aligner,
        "model": "model1" if chosen(options.model1, not diagonal, False) else "diagonal",
        "variational_bayes": chosen(options.variational_bayes, options.dirichlet, True),
        "optimize_tension": chosen(options.optimize_tension, options.fit_tension, True),
        "iterations": options.iterations,
        "p_null": 0.0 if options.no_null else options.p_null,
        "tension": options.tension,
        "alpha": options.alpha,
        "symmetrization": method,
        "counts": options.count_kind,
        "threads": options.threads,
        "memory_gib": memory_gib(options.memory),
        "dictionary": None if options.dictionary is None else str(options.dictionary),
        "priors": None if options.priors is None else str(options.priors),
    }
    try:
        return AlignmentConfig(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise InputError(f"an option is out of range: {faults}") from error


def described(request: "AlignTextRequest") -> str:
    """How the text is aligned, in one line for people."""
    config = request.config
    parts: list[str] = [config.aligner]
    if request.force is not None:
        parts = [f"with the model in {request.force}"]
    elif config.aligner.startswith("builtin") or config.aligner == "fast_align":
        parts.append("IBM Model 1" if config.model == "model1" else "diagonal prior")
        parts.append("variational Bayes" if config.variational_bayes else "maximum likelihood")
        parts.append(f"{config.iterations} iterations")
    return ", ".join([*parts, f"links: {config.symmetrization}"])


def _check_aligner(name: str, files: Mapping[str, Path]) -> None:
    """Whether the aligner is there and gets the files that it reads."""
    from tasks.alignment.backends.registry import backend
    from tasks.contract import InputError

    declared = backend(name)
    reads = dict(declared.files)
    for file, path in files.items():
        if file not in reads:
            raise InputError(f"--aligner {name} reads no --{file}; leave it out")
        if not path.is_file():
            raise InputError(f"--{file} {path}: there is no such file")
    for file, needed in reads.items():
        if needed and file not in files:
            raise InputError(f"--aligner {name} needs --{file} FILE")
    if declared.program is not None and declared.program() is None:
        raise InputError(f"--aligner {name}: its program is not there: {declared.install}")


def request_of(options: AlignOptions, folder: Path) -> "AlignTextRequest":
    """What `options` ask for, with `folder` to work in.

    Raises:
        InputError: a value is out of range, or the aligner or the saved model is not there.
    """
    from tasks.alignment.align_text import AlignTextRequest, model_text_settings
    from tasks.alignment.plain_text import TextInput

    saved = {} if options.force is None else model_text_settings(options.force)
    files = {name: path for name, path in (("dictionary", options.dictionary), ("priors", options.priors)) if path}
    _check_aligner(options.aligner, files)
    return AlignTextRequest(
        text=TextInput(
            source=options.source,
            target=options.target,
            both=options.both or options.fast_align_input,
            max_words=options.max_words or saved.get("max_words") or TextInput.max_words,
            lowercase=bool(options.lowercase or saved.get("lowercase")),
        ),
        config=alignment_config(options, saved),
        work=folder,
        model=options.model,
        force=options.force,
        counts=options.counts,
        files=files,
    )


def memory_gib(text: str | None) -> float | None:
    """GiB of a size such as '4G' or '1.5 GiB' (powers of 1024); None stays None.

    Raises:
        InputError: that is no size, or none to work with.
    """
    from tasks.contract import InputError

    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    size = 0 if found is None else int(float(found[1]) * 2 ** _SIZES[found[2].upper()])
    if size < LEAST_MEMORY:
        raise InputError(f"--memory {text!r}: give a size of at least 64M, such as 512M or 4G")
    return size / 2**30
