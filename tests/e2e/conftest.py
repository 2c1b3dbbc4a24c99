"""The whole chain on a small sample: one finished store per session, copied where a test changes it."""

import os
import shutil
from pathlib import Path

import pytest
import torch

from flows import execution
from flows.comparison import ComparisonRequest, prepare_comparison
from flows.display import LogDisplay
from flows.runner import prepare, run_in_process
from flows.runs import RunRequest
from flows.settings import Settings

SMALL = (
    "corpus.sources.0.sentences=3000",
    "bitext.sources.0.sentences=3000",
    "model.corpus.sources.0.sentences=3000",
    "tokenizer.vocab_size=600",
    "model.tokenizer.vocab_size=600",
    "model.pretraining.steps=12",
    "model.pretraining.checkpoint_every=4",
    "model.pretraining.architecture.hidden_size=32",
    "model.pretraining.architecture.intermediate_size=64",
    "model.pretraining.architecture.layers=2",
    "training.steps=8",
    "training.checkpoint_every=2",
    "evaluation.max_sentences=40",
    "evaluation.generation_tokens=4",
    "evaluation.generation_prompts=1",
    *(f"{section}.threads=1" for section in ("model.pretraining", "training", "evaluation")),
)

NO_DATA = Path("/nowhere")  # the sample is made, nothing is read


class Chain:
    """Runs the small chain on one store, its stages too in this process.

    That a stage in a process of its own writes the same bytes is what test_faults.py is for.
    """

    def __init__(self, store: Path | str) -> None:
        self.store = store
        self.where = Settings(store=str(store), data_root=NO_DATA)

    def prepare(self, *overrides, recipe="trans-tokenization", rerun=(), until=None):
        request = RunRequest("eo", "tiny-english", recipe, (*SMALL, *overrides), tuple(rerun), until)
        return prepare(request, self.where)

    def run(self, *overrides, **options):
        return self.finish(self.prepare(*overrides, **options))

    def compare(self, *initialisers):
        return self.finish(prepare_comparison(ComparisonRequest("eo", initialisers, overrides=SMALL), self.where))

    def finish(self, prepared):
        threads = torch.get_num_threads()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(execution, "run_stage", lambda stage, context, on_line: stage.run(context))
            result = run_in_process(prepared, LogDisplay())
        torch.set_num_threads(threads)
        return result

    def statuses(self, *overrides, **options):
        """Node id -> status of a run."""
        return {outcome.node: outcome.status for outcome in self.run(*overrides, **options).outcomes}


@pytest.fixture(scope="session")
def kills():
    """How often a test kills what it runs: 3 times, or LANGADAPT_TEST_KILLS."""
    return int(os.environ.get("LANGADAPT_TEST_KILLS", "3"))


@pytest.fixture(scope="session")
def small():
    """The overrides of the small chain."""
    return SMALL


@pytest.fixture(scope="session")
def make_chain():
    """Makes a chain on a store."""
    return Chain


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A chain whose run is complete; only for reading. Also gives the first run's result."""
    chain = Chain(tmp_path_factory.mktemp("finished") / "store")
    return chain, chain.run()


@pytest.fixture(scope="session")
def copy_finished(finished, tmp_path_factory):
    """Makes copies of the finished chain, to be changed at will."""

    def copy():
        store = tmp_path_factory.mktemp("copied") / "store"
        shutil.copytree(finished[0].store, store)
        return Chain(store)

    return copy


@pytest.fixture
def copied(copy_finished):
    """A copy of the finished chain."""
    return copy_finished()


@pytest.fixture
def environment(tmp_path):
    """Environment for child processes: nothing of the person's own Prefect or store is touched."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "LANGADAPT_"))}
    return {**own, "PREFECT_HOME": str(tmp_path / "prefect"), "DO_NOT_TRACK": "1"}
