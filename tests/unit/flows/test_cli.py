import json

import pytest
from typer.testing import CliRunner

from flows import cli
from flows.runner import summary_rows

SMALL = ["-o", "corpus.sources.0.sentences=300", "-o", "model.corpus.sources.0.sentences=300", "--until", "sample"]


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Runs the command in this process on a store of its own; gives exit code, output and errors."""
    monkeypatch.setenv("LANGADAPT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("LANGADAPT_DATA_ROOT", str(tmp_path))

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["langadapt", *arguments])
        try:
            cli.main()
        except SystemExit as end:
            return end.code or 0
        return 0

    return run


def test_a_run_then_its_record_artifact_query_and_garbage(call, capsys):
    assert call("run", "eo", "-r", "mean", "--no-prefect", "--json", *SMALL) == 0
    result = json.loads(capsys.readouterr().out)
    key = result["stages"][0]["key"]
    assert call("status", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["run_id"] == result["run_id"]
    assert call("show", result["run_id"], "--json") == 0
    assert json.loads(capsys.readouterr().out)["status"] == "completed"
    assert call("show", key[:12], "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["key"] == key
    assert shown["problem"] is None
    assert call("query", "SELECT count(*) AS pairs FROM sample_pairs", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["pairs"] >= 300
    assert call("gc", "--keep-runs", "0", "--older-than-days", "0", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["dry_run"] is True
    assert key in {item["key"] for item in report["removed"]}
    assert call("gc", "--keep-runs", "0", "--older-than-days", "0", "--delete") == 0
    capsys.readouterr()
    assert call("show", key[:12]) == cli.EXIT_INPUT


def test_a_plan_as_json_names_status_and_reason(call, capsys):
    assert call("plan", "eo", "--recipe", "mean", "--json") == 0
    rows = {row["node"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["sample"]["status"] == "run"
    assert rows["sample"]["reasons"] == ["never run"]
    assert rows["mapping"]["status"] == "depends"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "en/us"), "language code 'en/us' must match"),
        (("run", "eo", "--recipe", "maen"), "did you mean 'mean'"),
        (("run", "eo", "-o", "training.stepz=3"), "did you mean 'steps'"),
        (("run", "eo", "--until", "nowhere"), "has no stage 'nowhere'"),
        (("run", "eo", "--rerun", "nowhere"), "has no stage 'nowhere'"),
        (("run", "eo", "--verify", "never"), "must be one of auto, full, size"),
        (("run", "eo", "--store", "nope://x"), "store 'nope://x'"),
        (("run", "sw"), "there is no file"),
        (("query", "SELECT nonsense FROM nowhere"), "nowhere"),
        (("show", "zzz"), "fits nothing"),
    ],
)
def test_a_fault_of_the_person_is_one_message(call, capsys, arguments, message):
    assert call(*arguments) == cli.EXIT_INPUT
    captured = capsys.readouterr()
    assert message in captured.err.replace("\n", " ")
    assert "Traceback" not in captured.err


def test_validate_finds_no_fault_in_what_is_shipped(call, capsys):
    assert call("validate", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["faults"] == []
    assert report["combinations"] >= 72
    assert any("sw" in note for note in report["notes"])


def test_validate_lists_faults(call, capsys, tmp_path, monkeypatch):
    (tmp_path / "own" / "languages").mkdir(parents=True)
    (tmp_path / "own" / "languages" / "xx.yaml").write_text("code: xx\nnam: X\n")
    monkeypatch.setenv("LANGADAPT_CONFIG_DIR", str(tmp_path / "own"))
    assert call("validate") == cli.EXIT_INPUT
    assert "did you mean 'name'" in capsys.readouterr().err


def test_help_names_the_commands():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    for name in ("run", "plan", "status", "show", "export", "push", "query", "validate", "doctor", "gc"):
        assert name in result.output


def test_results_become_a_row_per_metric():
    rows = [
        {"model": "source", "metric": "bits_per_byte", "value": 2.0},
        {"model": "initial", "metric": "bits_per_byte", "value": 1.5},
        {"model": "initial", "metric": "speed", "value": 1234.5},
    ]
    header, table = summary_rows(rows)
    assert header == ["metric", "source", "initial"]
    assert table == [["bits_per_byte", "2.000", "1.500"], ["speed", "", "1,234.500"]]
