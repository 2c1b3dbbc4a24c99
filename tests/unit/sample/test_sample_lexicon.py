import re

import pytest

from tasks.sample.english import add_s, article, comparative_forms, ing_form, past_form, third_person
from tasks.sample.lexicon import load_lexicon, parse_expression

ADVERBS_NOT_IN_E = {
    "tre", "tro", "iom", "jam", "ĵus", "tuj", "foje", "ĉiam", "neniam", "ĉi tie", "tie", "ĉie",
}  # fmt: skip
LETTERS = re.compile(r"[a-zĉĝĥĵŝŭ ]+", re.IGNORECASE)


def test_at_least_600_lemmas(tables):
    lemmas = {(name, row["english"]) for name, rows in tables.items() if name != "expressions" for row in rows}
    assert len(lemmas) >= 900
    assert len(tables["nouns"]) >= 260
    assert len(tables["verbs"]) >= 140
    assert len(tables["adjectives"]) >= 110


@pytest.mark.parametrize("name", ["nouns", "verbs", "adjectives", "adverbs", "names", "functions"])
def test_no_lemma_twice_in_a_class(tables, name):
    keys = [(row["english"], row["class"] if name == "functions" else "") for row in tables[name]]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(("name", "ending"), [("nouns", "o"), ("verbs", "i"), ("adjectives", "a"), ("names", "o")])
def test_esperanto_endings(tables, name, ending):
    for row in tables[name]:
        word = row["esperanto"].split(" ")[0]
        assert LETTERS.fullmatch(row["esperanto"]), row
        assert word.endswith(ending) or (name == "names" and word.endswith("a") and row["kind"] == "f"), row


def test_adverbs_end_in_e_but_for_the_known_ones(tables):
    for row in tables["adverbs"]:
        assert row["esperanto"].endswith("e") or row["esperanto"] in ADVERBS_NOT_IN_E, row


def test_no_letters_foreign_to_esperanto(tables):
    for name in ("nouns", "verbs", "adjectives", "adverbs", "functions"):
        for row in tables[name]:
            assert not re.search("[qwxy]", row["esperanto"]), row


def test_every_cell_is_filled_and_selectors_name_something(tables):
    nouns = {row["english"] for row in tables["nouns"]}
    tags = {tag for row in tables["nouns"] for tag in row["tags"].split(",")}
    for name, columns in (("verbs", ("subject", "object")), ("adjectives", ("nouns",))):
        for row in tables[name]:
            assert all(value for value in row.values()), row
            for selector in (part for column in columns for part in row[column].split(",") if part != "-"):
                assert selector[1:] in nouns if selector.startswith("=") else selector in tags, (row, selector)


def test_transitive_verbs_have_objects_and_words_are_reachable():
    lexicon = load_lexicon()
    for frame in ("t", "g", "m"):
        for verb in lexicon.verbs[frame].items:
            assert verb.objects is not None, verb.english
            assert verb.subjects is not None, verb.english
    for adjective in lexicon.adjectives:
        assert adjective.nouns, adjective.english


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (add_s("box"), "boxes"), (add_s("city"), "cities"), (add_s("day"), "days"), (add_s("bus"), "buses"),
        (third_person("go"), "goes"), (third_person("have"), "has"), (third_person("try"), "tries"),
        (third_person("play"), "plays"), (past_form("study"), "studied"), (past_form("plan", True), "planned"),
        (past_form("like"), "liked"), (ing_form("die"), "dying"), (ing_form("see"), "seeing"),
        (ing_form("write"), "writing"), (ing_form("plan", True), "planning"),
        (article("hour"), "an"), (article("university"), "a"), (article("honest"), "an"), (article("euro"), "a"),
        (article("ugly"), "an"), (article("house"), "a"), (article("old"), "an"), (article("useful"), "a"),
        (comparative_forms("big", "d"), ("bigger", "biggest")),
        (comparative_forms("happy", "er"), ("happier", "happiest")),
        (comparative_forms("free", "er"), ("freer", "freest")),
        (comparative_forms("grey", "er"), ("greyer", "greyest")),
        (comparative_forms("good", "better,best"), ("better", "best")), (comparative_forms("famous", "-"), None),
    ],
)  # fmt: skip
def test_english_inflection(form, expected):
    assert form == expected


def test_expression_words_without_a_group_take_the_next_one():
    assert parse_expression("a few:1 days:2") == (("a", 1), ("few", 1), ("days", 2))
