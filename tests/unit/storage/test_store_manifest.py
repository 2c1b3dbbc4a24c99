import dataclasses
import json

import numpy as np
import pytest

from storage.keys import content_digest, stage_key
from storage.manifest import (
    DamagedArtifact,
    FileEntry,
    InputEntry,
    Manifest,
    manifest_json,
    parse_manifest,
    summary_values,
)

FILES = (FileEntry("a.txt", 3, "1" * 64), FileEntry("sub/ü.bin", 4, "2" * 64))


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(
        format=1,
        stage="counts",
        version=2,
        key=stage_key("counts", 2, {"alpha": 1.0, "list": [1, None]}, {"alignment": "d" * 64}),
        config={"alpha": 1.0, "list": [1, None]},
        inputs={"alignment": InputEntry("alignment", "3" * 64, "d" * 64)},
        files=FILES,
        digest=content_digest((file.path, file.sha256) for file in FILES),
        bytes=7,
        summary={"pairs": 12, "note": "▁é"},
        started_at="2026-01-02T03:04:05.678+00:00",
        seconds=1.5,
        host="h",
        python="3.11.7",
        libraries={"numpy": "1.26"},
    ).sealed()


def test_reads_back_as_written(manifest):
    assert parse_manifest(manifest_json(manifest)) == manifest


def test_every_truncation_is_damage(manifest):
    data = manifest_json(manifest)
    for length in range(len(data) - 2):
        with pytest.raises(DamagedArtifact, match=r"manifest\.json is not JSON"):
            parse_manifest(data[:length])


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Manifest)])
def test_a_missing_field_is_damage(manifest, field):
    values = json.loads(manifest_json(manifest))
    del values[field]
    with pytest.raises(DamagedArtifact):
        parse_manifest(json.dumps(values).encode())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", "other"), ("seconds", 2.5), ("summary", {"pairs": 13}), ("libraries", {}), ("bytes", 8),
        ("started_at", "2027-01-02T03:04:05.678+00:00"), ("checksum", "0" * 64), ("config", {"alpha": 1}),
    ],
)  # fmt: skip
def test_an_altered_field_is_damage(manifest, field, value):
    values = json.loads(manifest_json(manifest)) | {field: value}
    with pytest.raises(DamagedArtifact, match="altered"):
        parse_manifest(json.dumps(values).encode())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config": {"alpha": 2.0}}, "the key does not follow"),
        ({"version": 3}, "the key does not follow"),
        ({"files": FILES[:1]}, "the digest does not follow"),
        ({"format": 2}, "has format 2; this program reads format 1"),
        ({"files": (FileEntry("../a", 3, "1" * 64),)}, "file name '../a'"),
        ({"files": (FileEntry("/etc/a", 3, "1" * 64),)}, "file name '/etc/a'"),
        ({"stage": "a/b"}, "stage name 'a/b'"),
        ({"key": "x"}, "artifact key 'x'"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_damage_although_sealed(manifest, change, reason):
    with pytest.raises(DamagedArtifact, match=reason):
        parse_manifest(manifest_json(dataclasses.replace(manifest, **change).sealed()))


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b"\xff", b'{"format": 1}', b"null", b"[" * 100_000])
def test_other_content_is_damage(data):
    with pytest.raises(DamagedArtifact):
        parse_manifest(data)


def test_summary_takes_numpy_numbers_and_keeps_nan_as_text():
    summary = {"n": np.int64(3), "x": np.float32(0.5), "loss": float("nan"), "l": (1, float("-inf")), "t": True}
    assert summary_values(summary) == {"n": 3, "x": 0.5, "loss": "nan", "l": [1, "-inf"], "t": True}
    with pytest.raises(TypeError, match=r"summary\.a\[0\].*set"):
        summary_values({"a": [set()]})
    with pytest.raises(TypeError, match="key 1"):
        summary_values({1: 2})
