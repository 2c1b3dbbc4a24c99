from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.store import BuildRequest, InputEntry
from storage.why import compare, nearest

relaxed = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

CONFIG = {"vocab_size": 1200, "seed": 1, "phases": [{"steps": 100, "trainable": "all"}], "limit": None}


def made(store, builder, request):
    return store.manifest(store.get_or_build(request, builder()).artifact)


def test_lines_for_every_kind_of_difference(store, make_request, builder):
    corpus, other = (store.get_or_build(make_request("corpus", n=n), builder({"c": str(n)})).artifact for n in (1, 2))
    old = made(store, builder, make_request("tokenizer", inputs={"corpus": corpus, "gone": corpus}, **CONFIG))
    phases = [{"steps": 200, "trainable": "all"}, {"steps": 5}]
    config = {"vocab_size": 8000, "seed": 1.0, "phases": phases, "limit": None, "name": "x" * 200}
    new = make_request("tokenizer", version=2, inputs={"corpus": other, "more": other}, **config)
    difference = compare(old, new)
    assert difference.describe() == [
        "version 1 -> 2",
        'name: (not set) -> "' + "x" * 78 + "…",
        "phases[0].steps: 100 -> 200",
        "phases[1].steps: (not set) -> 5",
        "seed: 1 -> 1.0",
        "vocab_size: 1200 -> 8000",
        "input corpus changed",
        "input gone removed",
        "input more added",
    ]
    assert difference.count == 9


def test_an_emptied_list_and_a_removed_value(store, make_request, builder):
    old = made(store, builder, make_request(items=[1, 2], gone={"a": {}}))
    assert compare(old, make_request(items=[])).describe() == [
        "gone.a: {} -> (not set)",
        "items: (not set) -> []",
        "items[0]: 1 -> (not set)",
        "items[1]: 2 -> (not set)",
    ]


def test_the_nearest_is_chosen_within_the_stage(store, make_request, builder):
    made(store, builder, make_request("tokenizer", a=1, b=1, c=1))
    near = made(store, builder, make_request("tokenizer", a=2, b=2, c=1))
    made(store, builder, make_request("other", a=2, b=2, c=2))
    difference = nearest(store.manifests(), make_request("tokenizer", a=2, b=2, c=2))
    assert (difference.key, difference.describe()) == (near.key, ["c: 1 -> 2"])
    assert nearest(store.manifests(), make_request("nothing")) is None


def test_of_equals_the_youngest(store, make_request, builder):
    import dataclasses

    one = made(store, builder, make_request(a=1))
    two = made(store, builder, make_request(a=2))
    one = dataclasses.replace(one, started_at="2026-01-02T00:00:00+00:00")
    two = dataclasses.replace(two, started_at="2026-01-01T00:00:00+00:00")
    for order in ([one, two], [two, one]):
        assert nearest(order, make_request(a=3)).key == one.key


def test_the_same_request_differs_in_nothing(store, make_request, builder):
    manifest = made(store, builder, make_request(**CONFIG))
    assert nearest([manifest], make_request(**CONFIG)).describe() == []


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@relaxed
@given(st.dictionaries(st.sampled_from("xyz"), values, max_size=3), st.dictionaries(st.sampled_from("xyz"), values))
def test_there_is_a_difference_exactly_when_the_key_differs(old, new):
    from storage.manifest import Manifest

    inputs = {"i": InputEntry("s", "k", "d")}
    one, other = BuildRequest("s", 1, old, inputs), BuildRequest("s", 1, new, inputs)
    manifest = Manifest(1, "s", 1, one.key, old, inputs, (), "", 0, {}, "", 0.0, "", "", {})
    assert (compare(manifest, other).count == 0) == (one.key == other.key)
