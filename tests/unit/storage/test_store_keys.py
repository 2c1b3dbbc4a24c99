import hashlib
import json
import math
import os
from enum import Enum
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.keys import canonical_json, content_digest, file_digest, folder_digest, stage_key

relaxed = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)  # fmt: skip
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


def typed(value):
    """`value` with the types spelled out, so that == tells 1, 1.0 and True apart."""
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, repr(value)


def shuffled(value, random):
    if isinstance(value, dict):
        items = list(value.items())
        random.shuffle(items)
        return {name: shuffled(item, random) for name, item in items}
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    return value


def test_text_of_a_known_value():
    value = {"b": [1, 1.0, True, None], "a": {"ü": "▁vijf\n", "B": (), "10": 0.1}}
    assert canonical_json(value) == '{"a":{"10":0.1,"B":[],"ü":"▁vijf\\n"},"b":[1,1.0,true,null]}'


@relaxed
@given(values)
def test_reads_back_as_the_same_value_and_text(value):
    text = canonical_json(value)
    assert typed(json.loads(text)) == typed(value)
    assert canonical_json(json.loads(text)) == text


@relaxed
@given(values, st.randoms())
def test_order_of_keys_does_not_matter(value, random):
    assert canonical_json(shuffled(value, random)) == canonical_json(value)


@relaxed
@given(values, values)
def test_different_values_have_different_texts(one, other):
    assert (canonical_json(one) == canonical_json(other)) == (typed(one) == typed(other))


def test_integer_float_and_boolean_of_one_size_differ():
    assert len({canonical_json(value) for value in (1, 1.0, True, "1")}) == 4


def test_mapping_and_tuple_are_object_and_list():
    assert canonical_json(MappingProxyType({"a": (1, 2)})) == '{"a":[1,2]}'


class Colour(Enum):
    RED = "red"


class Word(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (math.nan, "value.x"), (math.inf, "inf"), ({1, 2}, "set"), (Path("a"), "Posix"), (b"a", "bytes"),
        (Colour.RED, "Colour"), (Word("a"), "Word"), ({1: 2}, "key 1"), ([{"y": -math.inf}], r"value\.x\[0\]\.y"),
        ("\ud800", "surrogate"), (object(), "object"),
    ],
)  # fmt: skip
def test_refuses_what_is_no_json(value, where):
    with pytest.raises(TypeError, match=where):
        canonical_json({"x": value})


KEY = {"stage": "tokenizer", "version": 1, "config": {"size": 8000, "seed": 1}, "inputs": {"corpus": "c1"}}


def test_key_is_the_sha256_of_the_parts():
    text = '{"config":{"seed":1,"size":8000},"inputs":{"corpus":"c1"},"stage":"tokenizer","version":1}'
    assert stage_key(**KEY) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "tokenizer2"}, {"version": 2}, {"config": {"size": 8000, "seed": 2}},
        {"config": {"size": 8000, "seed": 1, "more": None}}, {"config": {"size": 8000.0, "seed": 1}},
        {"inputs": {"corpus": "c2"}}, {"inputs": {"bitext": "c1"}}, {"inputs": {}},
    ],
)  # fmt: skip
def test_key_changes_with_every_part(change):
    assert stage_key(**{**KEY, **change}) != stage_key(**KEY)


@relaxed
@given(st.dictionaries(names, leaves, max_size=4), st.dictionaries(names, names, max_size=3), st.randoms())
def test_key_does_not_depend_on_order(config, inputs, random):
    assert stage_key("s", 1, config, inputs) == stage_key("s", 1, shuffled(config, random), shuffled(inputs, random))


def test_content_digest_by_hand_and_in_any_order():
    text = '[["a","1"],["b/c","2"]]'
    assert content_digest([("b/c", "2"), ("a", "1")]) == hashlib.sha256(text.encode()).hexdigest()
    assert content_digest([("a", "12"), ("b", "3")]) != content_digest([("a1", "2"), ("b", "3")])


def test_content_digest_refuses_a_path_twice():
    with pytest.raises(ValueError, match="'a' is listed twice"):
        content_digest([("a", "1"), ("a", "2")])


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_file_digest(tmp_path, size):
    path = tmp_path / "f"
    path.write_bytes(os.urandom(size))
    assert file_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_folder_digest_follows_links_and_passes_over_hidden_files(tmp_path):
    blobs, plain, linked = tmp_path / "blobs", tmp_path / "plain", tmp_path / "linked"
    for folder in (blobs, plain / "sub", linked / ".cache"):
        folder.mkdir(parents=True)
    (plain / "config.json").write_text("{}")
    (plain / "sub" / "w").write_text("w")
    (blobs / "1").write_text("{}")
    (blobs / "sub").mkdir()
    (blobs / "sub" / "w").write_text("w")
    (linked / "config.json").symlink_to(blobs / "1")
    (linked / "sub").symlink_to(blobs / "sub")
    (linked / ".cache" / "lock").write_text("now")
    assert folder_digest(linked) == folder_digest(plain)
    assert folder_digest(plain, ["config.json"]) == content_digest([("config.json", file_digest(blobs / "1"))])


def test_folder_digest_errors(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no files"):
        folder_digest(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="weights"):
        folder_digest(tmp_path, ["weights"])
    with pytest.raises(FileNotFoundError):
        folder_digest(tmp_path / "none")
    (tmp_path / "loop" / "in").mkdir(parents=True)
    (tmp_path / "loop" / "in" / "back").symlink_to(tmp_path / "loop")
    with pytest.raises(ValueError, match="a link to a folder that contains it"):
        folder_digest(tmp_path / "loop")
