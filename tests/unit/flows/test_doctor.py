import json

import pytest

from flows import cli


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """Runs `langadapt doctor` on a store of its own; gives what it prints."""
    monkeypatch.setenv("LANGADAPT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("LANGADAPT_DATA_ROOT", str(tmp_path))
    monkeypatch.delenv("LANGADAPT_FAST_ALIGN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["langadapt", "doctor", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        return capsys.readouterr().out

    return run


def test_every_aligner_and_place_is_told(doctor, tmp_path):
    found = json.loads(doctor("--json"))
    aligners = {row["name"]: row for row in found["aligners"]}
    assert list(aligners) == ["builtin", "builtin-plus", "fast_align", "eflomal", "dictionary"]
    assert aligners["builtin"]["available"]
    assert not aligners["fast_align"]["available"]
    assert "LANGADAPT_FAST_ALIGN" in aligners["fast_align"]["missing"]
    assert "tokens" in found["units"]
    places = {row["name"]: row for row in found["places"]}
    assert places["store"]["value"] == str(tmp_path / "store")
    assert places["store"]["ok"]
    assert set(places) == {"store", "data root", "compiled kernels", "Prefect API"}
    assert {"processors", "memory", "memory of an aligner", "GPU"} <= {row["name"] for row in found["machine"]}
    assert not (tmp_path / "store").exists()


def test_the_tables_are_for_people(doctor, tmp_path):
    program = tmp_path / "fast_align"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    shown = doctor()
    for part in ("Aligners", "builtin-plus", str(program), "same each run", "memory of an aligner"):
        assert part in shown


def test_a_place_that_cannot_be_written_is_told_with_advice(doctor, tmp_path):
    (tmp_path / "file").write_text("")
    rows = json.loads(
        doctor("--json", "--store", str(tmp_path / "file" / "store"), "--data-root", str(tmp_path / "no"))
    )
    places = {row["name"]: row for row in rows["places"]}
    assert places["store"]["ok"] is False
    assert "LANGADAPT_STORE" in places["store"]["advice"]
    assert "LANGADAPT_DATA_ROOT" in places["data root"]["advice"]
    assert json.loads(doctor("--json", "--store", "s3://bucket/x"))["places"][0]["ok"] is None
