"""The whole chain on a small sample: one finished store per session, copied where a test changes it."""

import os
import shutil
from pathlib import Path

import pytest

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
)


class Chain:
    """Runs the small chain in this process on one store."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.where = Settings(store=str(store), data_root=store.parent)

    def prepare(self, *overrides, recipe="trans-tokenization", rerun=(), until=None):
        request = RunRequest("eo", "tiny-english", recipe, (*SMALL, *overrides), tuple(rerun), until)
        return prepare(request, self.where)

    def run(self, *overrides, **options):
        return run_in_process(self.prepare(*overrides, **options), LogDisplay())

    def statuses(self, *overrides, **options):
        """Node id -> status of a run."""
        return {outcome.node: outcome.status for outcome in self.run(*overrides, **options).outcomes}


@pytest.fixture(scope="session")
def small():
    """The overrides of the small chain."""
    return SMALL


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A chain whose run is complete; only for reading. Also gives the first run's result."""
    chain = Chain(tmp_path_factory.mktemp("finished") / "store")
    return chain, chain.run()


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of the finished chain's store, to be changed at will."""
    shutil.copytree(finished[0].store, tmp_path / "store", copy_function=shutil.copy2)
    return Chain(tmp_path / "store")


@pytest.fixture
def environment(tmp_path):
    """Environment for child processes: nothing of the person's own Prefect or store is touched."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "LANGADAPT_"))}
    return {**own, "PREFECT_HOME": str(tmp_path / "prefect"), "DO_NOT_TRACK": "1"}
