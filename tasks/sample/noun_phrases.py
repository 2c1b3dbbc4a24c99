"""Noun phrases: determiners, adjectives, nouns, names, pronouns and their agreement."""

from dataclasses import dataclass

from tasks.sample import english
from tasks.sample.choice import Choice
from tasks.sample.draft import Draft, Features, Phrase, Token
from tasks.sample.esperanto import inflect
from tasks.sample.lexicon import Adjective, Noun

PRONOUNS = {
    # person, plural, gender: English subject, object, possessive; Esperanto
    (1, False, ""): ("I", "me", "my", "mi"),
    (2, False, ""): ("you", "you", "your", "vi"),
    (3, False, "m"): ("he", "him", "his", "li"),
    (3, False, "f"): ("she", "her", "her", "ŝi"),
    (3, False, "n"): ("it", "it", "its", "ĝi"),
    (1, True, ""): ("we", "us", "our", "ni"),
    (2, True, ""): ("you", "you", "your", "vi"),
    (3, True, ""): ("they", "them", "their", "ili"),
}
_PEOPLE = Choice(
    [Features(*key) for key in PRONOUNS if key[2] != "n"],
    [20, 12, 18, 18, 10, 4, 12],
)
_COUNT = Choice(
    ("a", "the", "own", "this", "number", "quantifier", "name's", "every", "bare"),
    (27, 38, 10, 6, 5, 5, 3, 1.5, 5),
)
_PERSON = Choice(
    ("a", "the", "own", "this", "number", "quantifier", "every", "bare"),
    (30, 45, 2, 6, 5, 6, 2, 4),
)
_KIN = Choice(("own", "the", "name's", "a", "number"), (65, 6, 20, 3, 3))
_BODY = Choice(("own", "the", "name's"), (80, 8, 12))
_MASS = Choice(("the", "bare", "own", "this", "measure"), (40, 30, 8, 5, 17))
_ABSTRACT = Choice(("the", "bare", "own"), (15, 60, 25))
_QUANTIFIERS = Choice(("many", "some", "several", "few", "all"), (35, 30, 12, 10, 13))
_QUANTITIES = Choice(("many", "some", "several", "few"), (40, 35, 15, 10))
_BARE = frozenset(("learnable", "sport", "value"))


@dataclass(slots=True)
class NounPhrase:
    """A noun phrase with what agrees with it; `noun` is None for names and pronouns, `pronoun` marks pronouns."""

    en: list[Token]
    eo: list[Token]
    features: Features
    noun: Noun | None = None
    pronoun: bool = False

    @property
    def phrase(self) -> Phrase:
        """The words alone."""
        return Phrase(self.en, self.eo)


@dataclass(frozen=True, slots=True)
class Need:
    """What is asked of a noun phrase.

    Attributes:
        accusative: it is an object (or a direction) in Esperanto.
        binder: features of the clause's subject, to which 'sia' refers; None in a subject itself.
        determiner: a kind of determiner to use, '' to draw one.
        singular: only singular forms.
        plain: no adjectives.
    """

    accusative: bool = False
    binder: Features | None = None
    determiner: str = ""
    singular: bool = False
    plain: bool = False


SUBJECT = Need()
INDEFINITE = frozenset(("a", "number", "quantifier", "quantity", "bare"))


def pronoun(draft: Draft, features: Features, accusative: bool = False) -> NounPhrase:
    """The personal pronoun for `features`; `accusative` also chooses the English object form."""
    subject, oblique, _, base = PRONOUNS[features.person, features.plural, features.gender]
    group = draft.group()
    form = oblique if accusative else subject
    return NounPhrase([(form, group)], [(inflect(base, False, accusative), group)], features, pronoun=True)


def prepositional_pronoun(draft: Draft, features: Features) -> NounPhrase:
    """The pronoun after a preposition: English object form, Esperanto nominative."""
    _, oblique, _, base = PRONOUNS[features.person, features.plural, features.gender]
    group = draft.group()
    return NounPhrase([(oblique, group)], [(base, group)], features, pronoun=True)


def any_pronoun(draft: Draft) -> Features:
    """Features of a pronoun for persons."""
    return _PEOPLE.draw(draft.random)


def referent(draft: Draft, features: Features) -> Features:
    """Features of the pronoun that takes up a phrase of `features`; an unknown gender is drawn."""
    if features.person == 3 and not features.plural and features.gender == "":
        return Features(3, False, "m" if draft.chance(0.5) else "f")
    return Features(3, True, "") if features.plural and features.person == 3 else features


def name_phrase(draft: Draft, accusative: bool = False) -> NounPhrase:
    """A person's name."""
    name = draft.lexicon.names["person"].draw(draft.random)
    phrase = draft.linked(name.english, inflect(name.esperanto, False, accusative))
    return NounPhrase(phrase.en, phrase.eo, Features(3, False, name.kind))


def place_name(draft: Draft, kind: str) -> Phrase:
    """The name of a city or country, nominative."""
    name = draft.lexicon.names[kind].draw(draft.random)
    return draft.linked(name.english, name.esperanto)


def _determiner_kind(draft: Draft, noun: Noun) -> str:
    tags = noun.tags
    if "unique" in tags:
        return "the"
    if "body" in tags:
        return _BODY.draw(draft.random)
    if "kin" in tags:
        return _KIN.draw(draft.random)
    if noun.mass:
        if noun.group == "idea":
            return "the"
        if tags & _BARE:
            return "bare"
        if noun.group == "abstract":
            return _ABSTRACT.draw(draft.random)
        kind = _MASS.draw(draft.random)
        return "the" if kind == "measure" and noun.group not in ("food", "drink") else kind
    choice = _PERSON if noun.group == "person" and "known" not in tags else _COUNT
    return choice.draw(draft.random)


def _is_plural(draft: Draft, noun: Noun, kind: str, need: Need) -> bool:
    if kind in ("number", "quantifier", "quantity"):
        return True
    if noun.mass or need.singular or kind in ("a", "every", "one") or "spouse" in noun.tags:
        return False
    return kind == "bare" or draft.chance(0.12 if "kin" in noun.tags else 0.25)


def possessor(draft: Draft, binder: Features | None) -> tuple[str, str]:
    """An English possessive and the Esperanto one in its base form; 'sia' where it refers to a third-person subject."""
    if binder is not None and draft.chance(0.7):
        if binder.person == 3:
            bound = referent(draft, binder)
            return PRONOUNS[bound.person, bound.plural, bound.gender][2], "sia"
        entry = PRONOUNS[binder.person, binder.plural, binder.gender]
        return entry[2], entry[3] + "a"
    features = any_pronoun(draft)
    while binder is not None and features.person == 3 == binder.person and features.plural == binder.plural:
        features = any_pronoun(draft)
    entry = PRONOUNS[features.person, features.plural, features.gender]
    return entry[2], entry[3] + "a"


def _determiner(draft: Draft, kind: str, plural: bool, need: Need) -> Phrase:
    if kind == "the":
        return draft.word("determiner", "the")
    if kind == "own":
        own, base = possessor(draft, need.binder)
        return draft.linked(own, inflect(base, plural, need.accusative))
    if kind == "this":
        near = draft.chance(0.65)
        base = "ĉi tiu" if near else "tiu"
        form = ("these" if near else "those") if plural else "this" if near else "that"
        return draft.linked(form, inflect(base, plural, need.accusative))
    if kind == "every":
        return draft.linked("every", inflect("ĉiu", False, need.accusative))
    if kind in ("quantifier", "quantity"):
        lemma = (_QUANTIFIERS if kind == "quantifier" else _QUANTITIES).draw(draft.random)
        return draft.linked(lemma, inflect(draft.lexicon.functions["quantifier", lemma], False, need.accusative))
    if kind == "number":
        return cardinal(draft)
    return Phrase([], [])


def cardinal(draft: Draft) -> Phrase:
    """A number from 2 up, small ones more often; some of the larger in digits."""
    number = 2 + draft.below(9)
    if draft.chance(0.25):
        number = 11 + draft.below(90)
    elif draft.chance(0.06):
        number = 100 + draft.below(900)
    if number > 10 and draft.chance(0.45):
        return draft.linked(str(number), str(number))
    return draft.number(number)


def _draw_adjectives(draft: Draft, noun: Noun) -> list[Adjective]:
    if noun.adjectives is None or not draft.chance(0.34):
        return []
    first = noun.adjectives.draw(draft.random)
    if not draft.chance(0.15):
        return [first]
    second = noun.adjectives.draw(draft.random)
    ranks = ("quality", "size", "age", "colour", "source", "material")
    pair = sorted((first, second), key=lambda adjective: ranks.index(adjective.order))
    return pair if first.order != second.order else [first]


def adjective_phrase(draft: Draft, adjective: Adjective, plural: bool, accusative: bool) -> Phrase:
    """An adjective that agrees."""
    return draft.linked(adjective.english, inflect(adjective.esperanto, plural, accusative))


def _adjectives(draft: Draft, noun: Noun, kind: str, plural: bool, need: Need) -> Phrase:
    phrase = Phrase([], [])
    chosen = [] if need.plain else _draw_adjectives(draft, noun)
    if len(chosen) == 1 and chosen[0].gradable:
        if kind == "the" and draft.chance(0.1):
            return superlative(draft, chosen[0], plural, need.accusative)
        if kind == "a" and draft.chance(0.12):
            phrase = draft.linked("very", "tre")
    for adjective in chosen:
        phrase = phrase + adjective_phrase(draft, adjective, plural, need.accusative)
    return phrase


def superlative(draft: Draft, adjective: Adjective, plural: bool, accusative: bool) -> Phrase:
    """'biggest' or 'most important', without the article."""
    form = inflect(adjective.esperanto, plural, accusative)
    if adjective.forms:
        return draft.linked(adjective.forms[1], f"plej {form}")
    return draft.word("comparison", "most") + draft.linked(adjective.english, form)


def _measured(draft: Draft, noun: Noun, need: Need) -> NounPhrase:
    """'two cups of tea': the measure is counted and declined, 'da' takes the bare noun."""
    lemma = "cup" if "hotdrink" in noun.tags else ("glass", "bottle")[draft.below(2)]
    if noun.group == "food":
        lemma = "plate" if "plateful" in noun.tags else "piece" if "lump" in noun.tags else "kilogram"
    measure = draft.lexicon.nouns[lemma]
    plural = not need.singular and draft.chance(0.3)
    head = draft.linked(
        measure.plural if plural else measure.english, inflect(measure.esperanto, plural, need.accusative)
    )
    count = draft.number(2 + draft.below(5)) if plural else Phrase([("a", 0)], [])
    whole = count + head + draft.linked("of", "da") + draft.linked(noun.english, noun.esperanto)
    return NounPhrase(whole.en, whole.eo, Features(3, plural, "n"), noun)


def noun_phrase(draft: Draft, noun: Noun, need: Need) -> NounPhrase:
    """A phrase with `noun` as its head."""
    kind = need.determiner or _determiner_kind(draft, noun)
    if kind == "measure":
        return _measured(draft, noun, need)
    if need.singular and kind in ("number", "quantifier", "bare") and not noun.mass:
        kind = "the"
    if noun.mass and kind in INDEFINITE:
        kind = "bare"
    plural = _is_plural(draft, noun, kind, need)
    inner = _adjectives(draft, noun, kind, plural, need)
    inner = inner + draft.linked(
        noun.plural if plural else noun.english, inflect(noun.esperanto, plural, need.accusative)
    )
    gender = noun.gender if noun.group == "person" else "n"
    features = Features(3, plural, "" if plural else gender)
    if kind == "name's":
        return _with_owner(draft, inner, features, noun)
    if kind == "a":
        inner = Phrase([(english.article(inner.en[0][0]), 0), *inner.en], inner.eo)
    else:
        inner = _determiner(draft, kind, plural, need) + inner
    return NounPhrase(inner.en, inner.eo, features, noun)


def _with_owner(draft: Draft, inner: Phrase, features: Features, noun: Noun) -> NounPhrase:
    """'Maria's book' / 'la libro de Maria': "Maria's" is linked with 'de' and 'Maria', 'la' with nothing."""
    name = draft.lexicon.names["person"].draw(draft.random)
    group = draft.group()
    en = [(name.english + "'s", group), *inner.en]
    eo = [("la", 0), *inner.eo, ("de", group), (name.esperanto, group)]
    return NounPhrase(en, eo, features, noun)


def coordinated(draft: Draft, first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """'X and Y', a plural of the third person."""
    both = first.phrase + draft.word("conjunction", "and") + second.phrase
    person = 1 if 1 in (first.features.person, second.features.person) else 3
    return NounPhrase(both.en, both.eo, Features(person, True, ""))
