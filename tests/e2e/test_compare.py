"""`langadapt compare` on the bundled sample: shared stages once, a table, a plot, and what could not run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

NAMES = ("random", "mean", "trans-tokenization")


@pytest.fixture(scope="module")
def compare(small, tmp_path_factory):
    """Runs the command on one store; gives its JSON."""
    root = tmp_path_factory.mktemp("compare")

    def run(*arguments):
        command = [sys.executable, "-m", "flows.cli", "compare", "eo", "--store", str(root / "store"), "--json"]
        command += [part for text in small for part in ("-o", text)]
        done = subprocess.run(
            [*command, "--no-prefect", *arguments], capture_output=True, text=True, timeout=500, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), root / "store"

    return run


@pytest.fixture(scope="module")
def compared(compare):
    return compare("-i", ",".join((*NAMES, "sava")))


def test_every_initialiser_has_its_row_and_what_cannot_run_has_its_reason(compared):
    rows = {row["initialiser"]: row for row in compared[0]["results"]}
    assert set(rows) == {*NAMES, "sava"}
    values = [rows[name]["bits_per_byte"] for name in NAMES]
    assert all(0 < value < 20 for value in values)
    assert len(set(values)) == 3
    assert "needs a helper model" in rows["sava"]["skipped"]
    order = [row["initialiser"] for row in compared[0]["results"]]
    assert order[-1] == "sava"
    assert order[:3] == sorted(NAMES, key=lambda name: rows[name]["bits_per_byte"])


def test_what_they_share_is_there_once(compared):
    stages = [row["stage"] for row in compared[0]["stages"]]
    once = ("corpus", "tokenizer", "pretraining", "bitext", "alignment", "counts", "comparison")
    assert {name: stages.count(name) for name in once} == {
        **dict.fromkeys(once, 1), "corpus": 2, "tokenizer": 2,  # of the source model too
    }  # fmt: skip
    assert stages.count("mapping") == stages.count("initial-model") == 3
    assert stages.count("evaluation") == 4
    assert "training" not in stages


def test_the_page_has_table_plot_and_similarity(compared):
    page = Path(compared[0]["report"]).read_text(encoding="utf-8")
    for text in ("trans-tokenization", "needs a helper model", "<svg", "How alike the tables are", "Completed"):
        assert text in page
    assert "<script" not in page


def test_again_everything_is_cached_and_a_further_one_builds_its_own_stages_alone(compare, compared):
    again, _ = compare("-i", ",".join((*NAMES, "sava")))
    assert {row["status"] for row in again["stages"]} == {"Cached"}
    assert again["results"] == compared[0]["results"]
    more, store = compare("-i", "mean,avg")
    built = {row["node"] for row in more["stages"] if row["status"] != "Cached"}
    assert {node for node in built if not node.endswith(".avg")} == {"comparison"}
    query = "SELECT initialiser FROM comparison_comparison"
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "query", query, "--store", str(store), "--json"],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert {row["initialiser"] for row in json.loads(done.stdout)} == {*NAMES, "sava", "avg"}
