"""The command `langadapt align`: word alignment of plain text, without a store or a configuration."""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

if TYPE_CHECKING:
    import pyarrow as pa

    from configs.schema import AlignmentConfig
    from tasks.alignment.align_text import AlignTextRequest

EXIT_INTERRUPTED = 130
PIPE_WIDTH = 140
LEAST_MEMORY = 64 * 2**20
_SIZES = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_INPUTS, _MODEL, _FAST_ALIGN, _RESULTS, _WORK = (
    "Parallel text",
    "Model",
    "fast_align's own options (any of these: its conventions hold)",
    "Results",
    "Resources",
)

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
    def conventions(self) -> bool:
        """Whether fast_align's conventions hold: one of its own options is there."""
        own = (self.favor_diagonal, self.fit_tension, self.dirichlet, self.reverse, self.no_null)
        return self.fast_align_input is not None or any(own)


def align(
    source: Annotated[
        str | None, typer.Option("--source", help="Source side, a sentence a line.", rich_help_panel=_INPUTS)
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Target side, line by line its translation.", rich_help_panel=_INPUTS)
    ] = None,
    both: Annotated[
        str | None,
        typer.Option(
            "--input",
            help="Both sides in one file: `source ||| target` a line (- is standard input), or .parquet with the "
            "columns source and target.",
            rich_help_panel=_INPUTS,
        ),
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase", help="Align lower-cased words.", rich_help_panel=_INPUTS)
    ] = None,
    max_words: Annotated[
        int | None,
        typer.Option(
            "--max-words",
            min=1,
            max=32767,
            help="Longest side that is aligned.",
            show_default="1000",
            rich_help_panel=_INPUTS,
        ),
    ] = None,
    aligner: Annotated[Aligner, typer.Option("--aligner", help="What aligns.", rich_help_panel=_MODEL)] = "builtin",
    symmetrize: Annotated[
        Method | None,
        typer.Option(
            "--symmetrize",
            help="How the directions are joined.",
            show_default="grow-diag-final-and; forward under fast_align's conventions",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    model1: Annotated[
        bool | None,
        typer.Option(
            "--model1/--diagonal",
            help="IBM Model 1, or the diagonal prior.",
            show_default="diagonal",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    variational_bayes: Annotated[
        bool | None,
        typer.Option(
            "--variational-bayes/--maximum-likelihood",
            help="With a Dirichlet prior on translations or without.",
            show_default="with",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    optimize_tension: Annotated[
        bool | None,
        typer.Option(
            "--optimize-tension/--fixed-tension",
            help="Fit the diagonal's tension.",
            show_default="fit",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", "-I", min=1, max=100, help="EM iterations.", show_default="5", rich_help_panel=_MODEL
        ),
    ] = None,
    p_null: Annotated[
        float | None,
        typer.Option(
            "--p-null", "-q", min=0, help="Prior of no counterpart.", show_default="0.08", rich_help_panel=_MODEL
        ),
    ] = None,
    tension: Annotated[
        float | None,
        typer.Option("--tension", "-T", min=0, help="First tension.", show_default="4", rich_help_panel=_MODEL),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha", "-a", min=0, help="Of the Dirichlet prior.", show_default="0.01", rich_help_panel=_MODEL
        ),
    ] = None,
    dictionary: Annotated[
        Path | None,
        typer.Option(help="Word list of --aligner dictionary, source<TAB>target a line.", rich_help_panel=_MODEL),
    ] = None,
    priors: Annotated[Path | None, typer.Option(help="Priors of --aligner eflomal.", rich_help_panel=_MODEL)] = None,
    fast_align_input: Annotated[str | None, typer.Option("-i", help="As --input.", rich_help_panel=_FAST_ALIGN)] = None,
    favor_diagonal: Annotated[
        bool, typer.Option("-d", help="Diagonal prior; without it, IBM Model 1.", rich_help_panel=_FAST_ALIGN)
    ] = False,
    fit_tension: Annotated[bool, typer.Option("-o", help="Fit the tension.", rich_help_panel=_FAST_ALIGN)] = False,
    dirichlet: Annotated[bool, typer.Option("-v", help="Variational Bayes.", rich_help_panel=_FAST_ALIGN)] = False,
    reverse: Annotated[
        bool, typer.Option("-r", help="The reverse direction; without it, forward.", rich_help_panel=_FAST_ALIGN)
    ] = False,
    no_null: Annotated[bool, typer.Option("-N", help="No NULL word.", rich_help_panel=_FAST_ALIGN)] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="File for the links.", show_default="standard output", rich_help_panel=_RESULTS),
    ] = None,
    format: Annotated[
        Literal["pharaoh", "parquet"],
        typer.Option(
            "--format", help="Of the links; parquet has the columns pair and links.", rich_help_panel=_RESULTS
        ),
    ] = "pharaoh",
    counts: Annotated[
        Path | None,
        typer.Option(
            "--counts", help="Parquet file for word pairs and how often each occurs.", rich_help_panel=_RESULTS
        ),
    ] = None,
    count_kind: Annotated[
        Literal["links", "expected"],
        typer.Option(
            "--count-kind", help="Links of the output, or posterior sums of both directions.", rich_help_panel=_RESULTS
        ),
    ] = "links",
    model: Annotated[
        Path | None, typer.Option("--model", help="Folder to save the trained model in.", rich_help_panel=_RESULTS)
    ] = None,
    force: Annotated[
        Path | None,
        typer.Option(
            "--force", help="Align with the model saved in this folder, without training.", rich_help_panel=_MODEL
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            "--work", help="Folder for checkpoints: after a kill the same command goes on there.", rich_help_panel=_WORK
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0: all.", rich_help_panel=_WORK)] = 0,
    memory: Annotated[
        str | None, typer.Option(help="Memory to use, such as 4G.", show_default="half of it", rich_help_panel=_WORK)
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Only errors on standard error.", rich_help_panel=_WORK)
    ] = False,
) -> None:
    """Align the words of parallel text; a drop-in for fast_align (docs/alignment.md)."""
    options = AlignOptions(**locals())
    try:
        run_align(options)
    except BrokenPipeError:
        # Who reads the links has seen enough; nothing must be written at the exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        kept = "" if work is None else "; the same command goes on from the last checkpoint"
        sys.stderr.write(f"interrupted{kept}\n")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def run_align(options: AlignOptions) -> None:
    """Do what `options` say.

    Raises:
        InputError: they contradict each other, or the text cannot be used.
    """
    _check(options)
    with ExitStack() as stack:
        folder = stack.enter_context(_work_folder(options.work))
        request = _request(options, folder)
        write = stack.enter_context(_writer(options))
        from flows.align_display import AlignDisplay
        from tasks.alignment.align_text import Listener, align_text

        console = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else PIPE_WIDTH)
        display = AlignDisplay(console, options.quiet)
        with display:
            listener = Listener(display.reading, display.note, display.training, display.writing)
            result = align_text(request, write, listener)
        display.result(result)


def _check(options: AlignOptions) -> None:
    from tasks.contract import InputError

    inputs = [options.both, options.fast_align_input, options.source or options.target]
    if sum(given is not None for given in inputs) != 1 or (options.source is None) != (options.target is None):
        raise InputError("name the text in one way: --source and --target, or --input, or -i")
    if options.format == "parquet" and options.output is None:
        raise InputError("--format parquet needs --output FILE; standard output takes only text")
    if options.model is not None and options.force is not None:
        raise InputError("--force trains nothing, so there is no --model to save")
    if options.model is not None and not options.aligner.startswith("builtin"):
        raise InputError(f"--model saves what the builtin aligners learn; {options.aligner} gives no tables")
    if options.count_kind == "expected" and options.counts is None:
        raise InputError("--count-kind expected says what --counts FILE is to hold; name the file too")
    if options.model is not None and options.model.exists():
        raise InputError(f"--model {options.model} is there already; name a new folder")
    if options.force is not None:
        _check_force(options)
    if options.no_null and not options.favor_diagonal:
        raise InputError("-N is there with -d only (IBM Model 1 is built with the NULL word)")
    for path in (options.output, options.counts, options.model):
        if path is not None and not path.absolute().parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.absolute().parent}")


def _check_force(options: AlignOptions) -> None:
    """What a saved model has fixed cannot be asked for again."""
    from tasks.contract import InputError

    given = {
        "--aligner": options.aligner != "builtin",
        "--model1/--diagonal": options.model1 is not None,
        "--variational-bayes": options.variational_bayes is not None,
        "--optimize-tension": options.optimize_tension is not None,
        "-I": options.iterations is not None,
        "-q": options.p_null is not None,
        "-T": options.tension is not None,
        "-a": options.alpha is not None,
        "-d": options.favor_diagonal,
        "-o": options.fit_tension,
        "-v": options.dirichlet,
        "-N": options.no_null,
        "--lowercase": options.lowercase is not None,
    }
    wrong = [name for name, there in given.items() if there]
    if wrong:
        raise InputError(f"--force takes the model as it was trained; leave out {', '.join(wrong)}")


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


def _request(options: AlignOptions, folder: Path) -> "AlignTextRequest":
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


@contextmanager
def _work_folder(work: Path | None) -> Iterator[Path]:
    """The folder to work in: temporary, or `work`, locked, and emptied of what is ours when all is done."""
    if work is None:
        with tempfile.TemporaryDirectory(prefix="langadapt-align-") as temporary:
            yield Path(temporary)
        return
    import fcntl
    import shutil

    from tasks.contract import InputError

    own = work / "langadapt-align"
    own.mkdir(parents=True, exist_ok=True)
    with (own / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"--work {work} is in use by another process; name another folder") from error
        yield own
        shutil.rmtree(own)


@contextmanager
def _writer(options: AlignOptions) -> Iterator[Callable[["pa.StringArray"], None]]:
    """A function that writes the next lines' links; a file is complete or not there."""
    if options.output is None:
        stream = sys.stdout.buffer
        yield lambda texts: _write_lines(texts, stream)
        stream.flush()
        return
    path = options.output
    special = path.exists() and not path.is_file()  # a device or a named pipe is written to as it is
    partial = path if special else path.with_name(path.name + ".partial")
    try:
        if options.format == "parquet":
            with _parquet_writer(partial) as write:
                yield write
        else:
            with partial.open("wb") as file:
                yield lambda texts: _write_lines(texts, file)
        if not special:
            partial.replace(path)
    except BaseException:
        if not special:
            with contextlib.suppress(FileNotFoundError):
                partial.unlink()
        raise


def _write_lines(texts: "pa.StringArray", stream: Any) -> None:
    from tasks.alignment.pharaoh import lines_of

    stream.write(lines_of(texts))


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Callable[["pa.StringArray"], None]]:
    import numpy as np
    import pyarrow as pa

    from storage.tables import TableWriter

    schema = pa.schema([("pair", pa.int64()), ("links", pa.string())])
    done = 0
    with TableWriter(path, schema) as writer:

        def write(texts: "pa.StringArray") -> None:
            nonlocal done
            pairs = np.arange(done, done + len(texts), dtype=np.int64)
            writer.write(pa.table([pa.array(pairs), texts], schema=schema))
            done += len(texts)

        yield write
