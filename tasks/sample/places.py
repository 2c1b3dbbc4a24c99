"""Places, goals and times."""

from tasks.sample.choice import Choice
from tasks.sample.draft import Draft, Features, Phrase
from tasks.sample.esperanto import inflect
from tasks.sample.lexicon import Noun
from tasks.sample.noun_phrases import Need, noun_phrase, place_name

_BY_TAG = (("in", "in"), ("on", "on"), ("at", "at"), ("seat", "on"), ("surface", "on"), ("tall", "under"))
_RELATIONS = Choice(("near", "behind", "in front of", "beside"), (40, 20, 25, 15))
_SOLID = frozenset(("building", "tall", "furniture", "vehicle"))
_YEARS = range(1900, 2031)


def preposition_of_place(draft: Draft, noun: Noun) -> str:
    """The English preposition that puts something where `noun` is."""
    if noun.tags & _SOLID and draft.chance(0.15):
        return _RELATIONS.draw(draft.random)
    for tag, preposition in _BY_TAG:
        if tag in noun.tags:
            return preposition
    if noun.english in ("sky", "war"):
        return "in"
    if noun.english in ("lake", "sea", "river", "floor", "roof"):
        return "on" if noun.group == "furniture" else "near"
    return "at" if noun.group == "event" else "near"


def place(draft: Draft, noun: Noun, binder: Features | None) -> Phrase:
    """Where something is: 'in the garden', 'behind our house'."""
    preposition = draft.word("preposition", preposition_of_place(draft, noun))
    return preposition + noun_phrase(draft, noun, _place_need(draft, noun, binder)).phrase


def _place_need(draft: Draft, noun: Noun, binder: Features | None) -> Need:
    kind = "own" if "home" in noun.tags and draft.chance(0.3) else "the" if draft.chance(0.75) else "a"
    if draft.chance(0.06):
        kind = "this"
    return Need(binder=binder, determiner="the" if "unique" in noun.tags else kind, singular=True)


def any_place(draft: Draft, binder: Features | None) -> Phrase:
    """A place that fits any action of a person: a common place or a city."""
    if draft.chance(0.12):
        return draft.word("preposition", "in") + place_name(draft, "city" if draft.chance(0.7) else "country")
    if draft.chance(0.06):
        adverb = draft.lexicon.adverbs["place"].draw(draft.random)
        return draft.linked(adverb.english, adverb.esperanto)
    group = ("room", "building", "outdoor")[draft.below(3)]
    noun = draft.lexicon.groups[group].draw(draft.random)
    while "in" not in noun.tags and "at" not in noun.tags:
        noun = draft.lexicon.groups[group].draw(draft.random)
    return place(draft, noun, binder)


def goal(draft: Draft, noun: Noun, binder: Features | None) -> Phrase:
    """Where a movement goes: 'to the school', or 'into the garden' with the accusative of direction."""
    enters = "in" in noun.tags and noun.group in ("building", "room", "outdoor") and "area" not in noun.tags
    need = _place_need(draft, noun, binder)
    if enters and draft.chance(0.3):
        inner = noun_phrase(draft, noun, Need(True, binder, need.determiner, singular=True))
        return draft.word("direction", "into") + inner.phrase
    if noun.english in ("roof", "bed", "table"):
        inner = noun_phrase(draft, noun, Need(True, binder, need.determiner, singular=True))
        return draft.word("direction", "onto") + inner.phrase
    return draft.word("preposition", "to") + noun_phrase(draft, noun, need).phrase


def personal_goal(draft: Draft, noun: Noun, binder: Features | None) -> Phrase:
    """The goal of a person's way: `noun`, a city, home, or from one place to another."""
    roll = draft.random()
    if roll < 0.06:
        return draft.linked("home", "hejmen")
    if roll < 0.2:
        return draft.word("preposition", "to") + place_name(draft, "city" if draft.chance(0.6) else "country")
    if roll < 0.27:
        start = draft.lexicon.groups["building"].draw(draft.random)
        if start is not noun:
            origin = noun_phrase(draft, start, Need(determiner="the", singular=True))
            return draft.word("preposition", "from") + origin.phrase + goal(draft, noun, binder)
    return goal(draft, noun, binder)


def time(draft: Draft, kind: str) -> Phrase:
    """When something happens; `kind` is 'past', 'future', 'habit' or 'now'."""
    if kind == "past" and draft.chance(0.15):
        if draft.chance(0.5):
            year = str(_YEARS.start + draft.below(120))
            return draft.word("preposition", "in") + draft.linked(year, year)
        return _counted_time(draft, "ago")
    if kind == "future" and draft.chance(0.1):
        return _counted_time(draft, "in")
    if kind in ("past", "future") and draft.chance(0.08):
        return o_clock(draft)
    return draft.expression(draft.lexicon.expressions[kind].draw(draft.random))


def _units(draft: Draft, brief: bool = False) -> Phrase:
    unit = draft.lexicon.groups["unit"].draw(draft.random)
    while brief and unit.english in ("week", "month", "year"):
        unit = draft.lexicon.groups["unit"].draw(draft.random)
    return draft.number(2 + draft.below(11)) + draft.linked(unit.plural, inflect(unit.esperanto, True, False))


def _counted_time(draft: Draft, kind: str) -> Phrase:
    """'three days ago' / 'antaŭ tri tagoj', 'in three days' / 'post tri tagoj'."""
    units = _units(draft)
    group = draft.group()
    if kind == "ago":
        return Phrase([*units.en, ("ago", group)], [("antaŭ", group), *units.eo])
    return Phrase([("in", group), *units.en], [("post", group), *units.eo])


def duration(draft: Draft) -> Phrase:
    """'for two hours' / 'dum du horoj'; no more than days."""
    return draft.linked("for", "dum") + _units(draft, brief=True)


def o_clock(draft: Draft) -> Phrase:
    """'at three o'clock' / 'je la tria horo'."""
    number = draft.number(2 + draft.below(9))
    (form, group) = number.eo[0]
    at = draft.linked("at", "je")
    clock = draft.linked("o'clock", "horo")
    return Phrase(at.en + number.en + clock.en, [*at.eo, ("la", 0), (form + "a", group), *clock.eo])
