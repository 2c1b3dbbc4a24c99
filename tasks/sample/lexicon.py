"""The bilingual lexicon: the tables of `lexicon/` as linked, weighted choices.

The order within a semantic group of nouns, and within a frame of verbs, is the order of frequency. Columns name
semantic groups (`tags`); `=word` names one noun. The tables are documented in `lexicon/README.md`.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tasks.sample import english
from tasks.sample.choice import Choice, zipf_choice, zipf_weight

FOLDER = Path(__file__).parent / "lexicon"
Row = dict[str, str]


@dataclass(eq=False, slots=True)
class Adjective:
    """An adjective; `forms` are the synthetic comparative and superlative, None where 'more' is used."""

    english: str
    esperanto: str
    forms: tuple[str, str] | None
    gradable: bool
    predicative: bool
    order: str
    nouns: dict[str, Choice["Noun"]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Noun:
    """A common noun; `group` is its first tag, `weight` its frequency in the group."""

    english: str
    plural: str
    esperanto: str
    tags: frozenset[str]
    group: str
    mass: bool
    weight: float
    adjectives: Choice[Adjective] | None = None
    predicates: Choice[Adjective] | None = None
    comparables: Choice[Adjective] | None = None
    as_subject: Choice["Verb"] | None = None
    as_object: Choice["Verb"] | None = None

    @property
    def gender(self) -> str:
        """'m', 'f' or '' (not known)."""
        return "m" if "m" in self.tags else "f" if "f" in self.tags else ""


@dataclass(frozen=True, eq=False, slots=True)
class Adverb:
    """An adverb; `esperanto` may be more than one word."""

    english: str
    esperanto: str


@dataclass(eq=False, slots=True)
class Verb:
    """A verb with its frame: what it is built with, its inflected forms and the nouns that fit it."""

    english: str
    particle: tuple[str, ...]
    third: str
    past: str
    participle: str
    ing: str
    stem: str
    preposition: str
    frame: str
    flags: frozenset[str]
    personal: bool
    subjects: Choice[Noun] | None
    objects: Choice[Noun] | None
    manner: Choice[Adverb] | None


@dataclass(frozen=True, slots=True)
class Name:
    """A proper name; `kind` is 'm', 'f', 'city' or 'country'."""

    english: str
    esperanto: str
    kind: str


@dataclass(frozen=True, slots=True)
class Expression:
    """A fixed expression: forms with their link groups (0: no link) on each side."""

    english: tuple[tuple[str, int], ...]
    esperanto: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Everything the grammar draws from."""

    nouns: dict[str, Noun]
    adjectives: tuple[Adjective, ...]
    verbs: dict[str, Choice[Verb]]
    actions: Choice[Verb]
    conditions: Choice[Verb]
    passives: Choice[Verb]
    adverbs: dict[str, Choice[Adverb]]
    names: dict[str, Choice[Name]]
    functions: dict[tuple[str, str], str]
    expressions: dict[str, Choice[Expression]]
    groups: dict[str, Choice[Noun]]
    person_adjectives: Choice[Adjective]
    person_comparables: Choice[Adjective]


def read_rows(name: str) -> list[Row]:
    """The rows of the table `lexicon/<name>.tsv` as dicts."""
    with (FOLDER / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _load_nouns() -> dict[str, Noun]:
    ranks: dict[str, int] = {}
    nouns = {}
    for row in read_rows("nouns"):
        tags = row["tags"].split(",")
        rank = ranks[tags[0]] = ranks.get(tags[0], -1) + 1
        lemma, plural = row["english"], row["plural"]
        nouns[lemma] = Noun(
            english=lemma,
            plural=english.add_s(lemma) if plural in ("-", "mass") else plural,
            esperanto=row["esperanto"],
            tags=frozenset(tags),
            group=tags[0],
            mass=plural == "mass",
            weight=zipf_weight(rank),
        )
    return nouns


def _matching(selectors: str, nouns: Iterable[Noun]) -> list[Noun]:
    names = selectors.split(",")
    tags = {name for name in names if not name.startswith("=")}
    lemmas = {name[1:] for name in names if name.startswith("=")}
    return [noun for noun in nouns if noun.english in lemmas or tags & noun.tags]


def _choice_of_nouns(nouns: Sequence[Noun]) -> Choice[Noun] | None:
    return Choice(nouns, [noun.weight for noun in nouns]) if nouns else None


def _zipf_or_none(items: Sequence[Adjective]) -> Choice[Adjective] | None:
    return zipf_choice(items) if items else None


def _load_adjectives(nouns: dict[str, Noun]) -> tuple[Adjective, ...]:
    adjectives = []
    fitting: dict[str, list[Adjective]] = {lemma: [] for lemma in nouns}
    for row in read_rows("adjectives"):
        rule = row["comparison"]
        adjective = Adjective(
            english=row["english"],
            esperanto=row["esperanto"],
            forms=english.comparative_forms(row["english"], rule),
            gradable=rule not in ("none", "attributive"),
            predicative=rule != "attributive",
            order=row["order"],
        )
        adjectives.append(adjective)
        by_group: dict[str, list[Noun]] = {}
        for noun in _matching(row["nouns"], nouns.values()):
            fitting[noun.english].append(adjective)
            by_group.setdefault(noun.group, []).append(noun)
        adjective.nouns = {group: Choice(own, [n.weight for n in own]) for group, own in by_group.items()}
    for lemma, own in fitting.items():
        noun = nouns[lemma]
        noun.adjectives = _zipf_or_none(own)
        noun.predicates = _zipf_or_none([a for a in own if a.predicative])
        noun.comparables = _zipf_or_none([a for a in own if a.gradable])
    return tuple(adjectives)


def _verb_forms(lemma: str, forms: str) -> tuple[str, str, str]:
    """Past, participle and -ing form."""
    doubled = forms == "d"
    if forms in ("-", "d"):
        past = english.past_form(lemma, doubled)
        return past, past, english.ing_form(lemma, doubled)
    parts = forms.split(",")
    return parts[0], parts[1], parts[2] if len(parts) > 2 else english.ing_form(lemma)


def _load_verbs(nouns: dict[str, Noun], manner: dict[str, list[Adverb]]) -> list[Verb]:
    verbs = []
    for row in read_rows("verbs"):
        lemma, *particle = row["english"].split(" ")
        infinitive, _, preposition = row["esperanto"].partition(" ")
        past, participle, ing = _verb_forms(lemma, row["forms"])
        adverbs = manner.get(row["manner"])
        verbs.append(
            Verb(
                english=lemma,
                particle=tuple(particle),
                third=english.third_person(lemma),
                past=past,
                participle=participle,
                ing=ing,
                stem=infinitive.removesuffix("i"),
                preposition=preposition,
                frame=row["frame"],
                flags=frozenset(row["flags"].split(",")),
                personal="person" in row["subject"].split(","),
                subjects=_choice_of_nouns(_matching(row["subject"], nouns.values())),
                objects=_choice_of_nouns(_matching(row["object"], nouns.values())),
                manner=zipf_choice(adverbs) if adverbs else None,
            )
        )
    return verbs


def _link_nouns_to_verbs(nouns: dict[str, Noun], verbs: Sequence[Verb]) -> None:
    subject_of: dict[str, list[Verb]] = {lemma: [] for lemma in nouns}
    object_of: dict[str, list[Verb]] = {lemma: [] for lemma in nouns}
    for verb in verbs:
        if verb.subjects is not None and verb.frame in ("i", "m", "t"):
            for noun in verb.subjects.items:
                subject_of[noun.english].append(verb)
        if verb.objects is not None and verb.frame in ("t", "g"):
            for noun in verb.objects.items:
                object_of[noun.english].append(verb)
    for lemma, noun in nouns.items():
        noun.as_subject = zipf_choice(subject_of[lemma]) if subject_of[lemma] else None
        noun.as_object = zipf_choice(object_of[lemma]) if object_of[lemma] else None


def _load_adverbs() -> tuple[dict[str, Choice[Adverb]], dict[str, list[Adverb]]]:
    """Adverbs by class, and adverbs of manner by kind."""
    classes: dict[str, list[Adverb]] = {}
    kinds: dict[str, list[Adverb]] = {}
    for row in read_rows("adverbs"):
        adverb = Adverb(row["english"], row["esperanto"])
        classes.setdefault(row["class"], []).append(adverb)
        for kind in row["kinds"].split(","):
            kinds.setdefault(kind, []).append(adverb)
    kinds.pop("-")
    return {name: zipf_choice(own) for name, own in classes.items()}, kinds


def parse_expression(text: str) -> tuple[tuple[str, int], ...]:
    """Words and link groups of 'a few:1 days:2'; a word without a group takes that of the next word with one."""
    words: list[tuple[str, int]] = []
    waiting: list[str] = []
    for part in text.split(" "):
        word, _, group = part.partition(":")
        waiting.append(word)
        if group:
            words += [(own, int(group)) for own in waiting]
            waiting = []
    return tuple(words)


def _load_expressions() -> dict[str, Choice[Expression]]:
    kinds: dict[str, list[Expression]] = {}
    for row in read_rows("expressions"):
        expression = Expression(parse_expression(row["english"]), parse_expression(row["esperanto"]))
        kinds.setdefault(row["kind"], []).append(expression)
    return {kind: zipf_choice(own) for kind, own in kinds.items()}


def _load_names() -> dict[str, Choice[Name]]:
    names = [Name(row["english"], row["esperanto"], row["kind"]) for row in read_rows("names")]
    kinds = {"person": ("m", "f"), "city": ("city",), "country": ("country",)}
    members = {kind: [name for name in names if name.kind in own] for kind, own in kinds.items()}
    return {kind: Choice(own, [zipf_weight(rank, 9.0) for rank in range(len(own))]) for kind, own in members.items()}


def _groups(nouns: dict[str, Noun]) -> dict[str, Choice[Noun]]:
    tags = sorted({tag for noun in nouns.values() for tag in noun.tags})
    members = {tag: [noun for noun in nouns.values() if tag in noun.tags] for tag in tags}
    return {tag: Choice(own, [noun.weight for noun in own]) for tag, own in members.items()}


@cache
def load_lexicon() -> Lexicon:
    """The lexicon, read once a process."""
    nouns = _load_nouns()
    adjectives = _load_adjectives(nouns)
    adverbs, manner = _load_adverbs()
    verbs = _load_verbs(nouns, manner)
    _link_nouns_to_verbs(nouns, verbs)
    frames = {frame: zipf_choice([v for v in verbs if v.frame == frame]) for frame in sorted({v.frame for v in verbs})}
    persons = [adjective for adjective in adjectives if "person" in adjective.nouns]
    return Lexicon(
        nouns=nouns,
        adjectives=adjectives,
        verbs=frames,
        actions=zipf_choice([v for v in verbs if v.personal and v.frame in ("t", "i", "m") and "s" not in v.flags]),
        conditions=zipf_choice([v for v in verbs if v.english in ("have", "need", "love", "trust", "miss", "fear")]),
        passives=zipf_choice([v for v in verbs if passive(v)]),
        adverbs=adverbs,
        names=_load_names(),
        functions={(row["class"], row["english"]): row["esperanto"] for row in read_rows("functions")},
        expressions=_load_expressions(),
        groups=_groups(nouns),
        person_adjectives=zipf_choice([a for a in persons if a.predicative and _fits_person(a)]),
        person_comparables=zipf_choice([a for a in persons if a.gradable and _fits_person(a)]),
    )


def _fits_person(adjective: Adjective) -> bool:
    return len(adjective.nouns["person"].items) > 40


def passive(verb: Verb) -> bool:
    """Whether the grammar puts `verb` into the passive: one object, no preposition on either side."""
    return verb.frame == "t" and "n" not in verb.flags and not verb.particle and not verb.preposition
