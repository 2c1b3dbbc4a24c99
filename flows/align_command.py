"""The command `langadapt align`: word alignment of plain text, without a store or a configuration."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from flows.align_options import Aligner, AlignOptions, Method, check, described, request_of
from flows.align_output import work_folder, writer

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
PIPE_WIDTH = 140
_INPUTS, _MODEL, _FAST_ALIGN, _RESULTS, _WORK = (
    "Parallel text",
    "Model",
    "fast_align's own options (any of these: its conventions hold)",
    "Results",
    "Resources",
)


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
    table: Annotated[str | None, typer.Option("-p", hidden=True)] = None,
    read_table: Annotated[str | None, typer.Option("-f", hidden=True)] = None,
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
        typer.Exit: the program of another aligner failed; its last words are on standard error.
    """
    check(options)
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder(options.work))
        request = request_of(options, folder)
        write = stack.enter_context(writer(None if options.to_stdout else options.output, options.format))
        from flows.align_display import AlignDisplay
        from tasks.alignment.align_text import Listener, align_text
        from tasks.alignment.child_process import ProgramError

        console = Console(
            stderr=True, highlight=False, width=None if sys.stderr and sys.stderr.isatty() else PIPE_WIDTH
        )
        display = AlignDisplay(console, options.quiet)
        display.settings(described(request))
        listener = Listener(display.reading, display.note, display.training, display.writing)
        try:
            with display:
                result = align_text(request, write, listener)
        except ProgramError as error:
            sys.stderr.write(f"failed: {error}\n")
            raise typer.Exit(EXIT_FAILED) from error
        display.result(result)
