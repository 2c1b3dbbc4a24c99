"""`langadapt compare` on the bundled sample: shared stages once, a table, a plot, and what could not run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

NAMES = ("random", "trans-tokenization", "sava")


@pytest.fixture(scope="module")
def chain(copy_finished):
    """A copy of the chain in which a whole run by trans-tokenization is finished."""
    return copy_finished()


@pytest.fixture(scope="module")
def compare(chain):
    """Compares initialisers on that chain's store; gives the result as JSON."""
    return lambda *names: chain.compare(*names).as_json()


@pytest.fixture(scope="module")
def compared(compare):
    return compare(*NAMES)


def built(result):
    return {row["node"] for row in result["stages"] if row["status"] != "Cached"}


def test_every_initialiser_has_its_row_and_what_cannot_run_has_its_reason(compared):
    rows = {row["initialiser"]: row for row in compared["results"]}
    assert set(rows) == set(NAMES)
    values = [rows[name]["bits_per_byte"] for name in NAMES[:2]]
    assert all(0 < value < 20 for value in values)
    assert values[0] != values[1]
    assert "needs a helper model" in rows["sava"]["skipped"]
    order = [row["initialiser"] for row in compared["results"]]
    assert order == [*sorted(NAMES[:2], key=lambda name: rows[name]["bits_per_byte"]), "sava"]


def test_what_they_share_is_there_once_and_a_runs_stages_are_taken_over(compared):
    stages = [row["stage"] for row in compared["stages"]]
    once = ("corpus", "tokenizer", "pretraining", "bitext", "alignment", "counts", "comparison")
    assert {name: stages.count(name) for name in once} == {
        **dict.fromkeys(once, 1), "corpus": 2, "tokenizer": 2,  # of the source model too
    }  # fmt: skip
    assert stages.count("mapping") == stages.count("initial-model") == 2
    assert stages.count("evaluation") == 3
    assert "training" not in stages
    assert built(compared) == {"mapping.random", "initial-model.random", "evaluation.initial.random", "comparison"}


def test_the_page_has_table_plot_and_similarity(compared):
    page = Path(compared["report"]).read_text(encoding="utf-8")
    for text in ("trans-tokenization", "needs a helper model", "<svg", "How alike the tables are", "Completed"):
        assert text in page
    assert "<script" not in page


def test_a_further_one_builds_its_own_stages_alone(compare, compared):
    more = compare("random", "mean")
    assert built(more) == {"mapping.mean", "initial-model.mean", "evaluation.initial.mean", "comparison"}
    bits = [{row["initialiser"]: row["bits_per_byte"] for row in result["results"]} for result in (compared, more)]
    assert bits[0]["random"] == bits[1]["random"] != bits[1]["mean"]


def test_the_command_takes_everything_from_the_store_and_its_tables_can_be_queried(compared, chain, small):
    def call(*arguments):
        command = [sys.executable, "-m", "flows.cli", *arguments, "--store", str(chain.store), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    options = [part for text in small for part in ("-o", text)]
    again = call("compare", "eo", "-i", ",".join(NAMES), "--no-prefect", *options)
    assert built(again) == set()
    assert again["results"] == compared["results"]
    rows = call("query", "SELECT DISTINCT initialiser FROM comparison_comparison")
    assert {row["initialiser"] for row in rows} >= set(NAMES)
