"""Sentences of one clause."""

from dataclasses import replace

from tasks.sample.choice import Choice
from tasks.sample.clauses import (
    THING,
    any_mood,
    complements,
    copular_clause,
    draw_predicate,
    person_subject,
    predicate_adjective,
    predicates_of,
    statement,
    subject_of,
    verbal_clause,
)
from tasks.sample.draft import Draft, Features, Phrase
from tasks.sample.esperanto import finite, inflect
from tasks.sample.lexicon import Adjective, Noun, Verb
from tasks.sample.noun_phrases import (
    SUBJECT,
    Need,
    NounPhrase,
    any_pronoun,
    name_phrase,
    noun_phrase,
    place_name,
    prepositional_pronoun,
    pronoun,
    superlative,
)
from tasks.sample.places import any_place, duration, place, time
from tasks.sample.verb_groups import Mood, be_group, verb_group

_FRAMES = Choice(("t", "i", "m", "g"), (58, 15, 14, 13))
_SUBJECT_GROUPS = Choice(
    ("person", "animal", "building", "outdoor", "small", "food", "text", "idea", "vehicle", "clothing", "show"),
    (24, 8, 8, 6, 7, 5, 7, 7, 4, 4, 3),
)
_COPULA_TENSES = Choice(("present", "past", "future"), (60, 33, 7))
_EXISTING = Choice(("small", "animal", "movable", "person", "plant", "building"), (25, 20, 15, 15, 10, 15))
_WEATHER = (("cold", "malvarme"), ("warm", "varme"), ("dark", "mallume"), ("hot", "varmege"))
Sentence = tuple[Phrase, str]


def any_verb(draft: Draft) -> Verb:
    """A verb of one of the ordinary frames."""
    return draft.lexicon.verbs[_FRAMES.draw(draft.random)].draw(draft.random)


def plain(draft: Draft) -> Sentence:
    """'The teacher reads an old book in the garden.'"""
    verb = any_verb(draft)
    phrase = statement(verbal_clause(draft, verb, subject_of(draft, verb), any_mood(draft, verb)))
    if draft.chance(0.05):
        adverb = draft.lexicon.adverbs["sentence"].draw(draft.random)
        phrase = draft.linked(adverb.english, adverb.esperanto) + phrase
    return phrase, "."


def copular_subject(draft: Draft) -> NounPhrase:
    """Anything that has properties."""
    group = _SUBJECT_GROUPS.draw(draft.random)
    if group == "person":
        return person_subject(draft)
    noun = draft.lexicon.groups[group].draw(draft.random)
    return noun_phrase(draft, noun, Need(determiner=_definite(draft), plain=True))


def _definite(draft: Draft) -> str:
    return ("the", "the", "the", "own", "this")[draft.below(5)]


def quality(draft: Draft) -> Sentence:
    """'My sister was very tired.'"""
    subject = copular_subject(draft)
    adjectives = predicates_of(draft, subject)
    if adjectives is None:
        return plain(draft)
    mood = Mood(_COPULA_TENSES.draw(draft.random), negated=draft.chance(0.15))
    predicate = predicate_adjective(draft, subject, draw_predicate(draft, subject, adjectives))
    if subject.features.gender != "n" and draft.chance(0.06):
        second = adjectives.draw(draft.random)
        if second.english not in {form for form, _ in predicate.en}:
            joined = predicate + draft.word("conjunction", "and")
            predicate = joined + predicate_adjective(draft, subject, second, degree=False)
    clause = copular_clause(draft, subject, mood, predicate)
    if mood.tense != "present" and draft.chance(0.25):
        clause.time = time(draft, mood.tense)
        clause.eo_time_first = draft.chance(0.4)
    return statement(clause), "."


def _fits_gender(noun: Noun, features: Features) -> bool:
    return not noun.gender or noun.gender == features.gender


def profession(draft: Draft) -> Sentence:
    """'Peter is a good doctor.'"""
    subject = person_subject(draft)
    jobs = draft.lexicon.groups["job"]
    noun = jobs.draw(draft.random)
    while not _fits_gender(noun, subject.features) or noun is subject.noun:
        noun = jobs.draw(draft.random)
    plural = subject.features.plural
    predicate = noun_phrase(draft, noun, Need(determiner="bare" if plural else "a"))
    mood = Mood(_COPULA_TENSES.draw(draft.random), negated=draft.chance(0.12))
    phrase = predicate.phrase
    if draft.chance(0.3):
        phrase = phrase + draft.word("preposition", "in") + place_name(draft, "city")
    return statement(copular_clause(draft, subject, mood, phrase)), "."


def existence(draft: Draft) -> Sentence:
    """'There is a cat in the garden.' / 'Estas kato en la ĝardeno.': 'there' and 'is' are linked with 'estas'."""
    noun = draft.lexicon.groups[_EXISTING.draw(draft.random)].draw(draft.random)
    if "kin" in noun.tags:
        return plain(draft)
    kind = ("a", "a", "a", "number", "quantity")[draft.below(5)]
    subject = noun_phrase(draft, noun, Need(determiner=kind))
    tense = _COPULA_TENSES.draw(draft.random)
    if noun.group == "small" and draft.chance(0.6):
        where = place(draft, draft.lexicon.groups["surface"].draw(draft.random), None)
    elif noun.group in ("furniture", "small"):
        where = place(draft, draft.lexicon.groups["room"].draw(draft.random), None)
    elif noun.group in ("building", "plant"):
        where = place(draft, draft.lexicon.groups["outdoor"].draw(draft.random), None)
    else:
        where = any_place(draft, None)
    group = be_group(draft, subject.features, Mood(tense))
    link = group.eo[0][1]
    en = [("there", link), *group.front, *group.rest, *subject.en, *where.en]
    if draft.chance(0.4):
        return Phrase(en, where.eo + group.eo + subject.eo), "."
    return Phrase(en, group.eo + subject.eo + where.eo), "."


def _compared(draft: Draft, subject: NounPhrase, adjective: Adjective) -> NounPhrase:
    """What a subject is compared with: a person, or a thing of the same group."""
    noun = subject.noun
    if noun is None or noun.group == "person":
        features = any_pronoun(draft)
        if features.person != subject.features.person and draft.chance(0.4):
            return prepositional_pronoun(draft, features)
        return name_phrase(draft) if draft.chance(0.3) else _of_group(draft, draft.lexicon.groups["person"])
    other = adjective.nouns[noun.group].draw(draft.random)
    return noun_phrase(draft, other, Need(determiner="that" if other is noun else _definite(draft)))


def _of_group(draft: Draft, nouns: Choice[Noun]) -> NounPhrase:
    return noun_phrase(draft, nouns.draw(draft.random), Need(determiner="own" if draft.chance(0.5) else "the"))


def comparison(draft: Draft) -> Sentence:
    """'My house is bigger than yours', 'less interesting than', 'as strong as'."""
    subject = copular_subject(draft)
    noun = subject.noun
    choice = draft.lexicon.person_comparables if noun is None or noun.group == "person" else noun.comparables
    if choice is None:
        return plain(draft)
    adjective = draw_predicate(draft, subject, choice)
    other = _compared(draft, subject, adjective)
    if other.noun is not None and other.noun is noun:
        return superlative_sentence(draft)
    form = inflect(adjective.esperanto, subject.features.plural, False)
    roll = draft.random()
    if roll < 0.2:
        first, last = draft.linked("as", "tiel"), draft.word("comparison", "as")
        predicate = first + draft.linked(adjective.english, form) + last
    elif roll < 0.35 and not adjective.forms:
        less = draft.word("comparison", "less") + draft.linked(adjective.english, form)
        predicate = less + draft.word("comparison", "than")
    else:
        predicate = comparative(draft, adjective, form) + draft.word("comparison", "than")
    mood = Mood(_COPULA_TENSES.draw(draft.random), negated=draft.chance(0.1))
    return statement(copular_clause(draft, subject, mood, predicate + other.phrase)), "."


def comparative(draft: Draft, adjective: Adjective, form: str) -> Phrase:
    """'bigger' (linked with both words of 'pli granda') or 'more important' (word by word)."""
    if adjective.forms:
        return draft.linked(adjective.forms[0], f"pli {form}")
    return draft.word("comparison", "more") + draft.linked(adjective.english, form)


def superlative_sentence(draft: Draft) -> Sentence:
    """'This is the oldest church in the city.'"""
    noun = draft.lexicon.groups[("building", "person", "vehicle", "animal")[draft.below(4)]].draw(draft.random)
    choice = noun.comparables
    if choice is None or "kin" in noun.tags:
        return plain(draft)
    adjective = choice.draw(draft.random)
    group = draft.group()
    subject = NounPhrase([("this", group)], [("ĉi", group), ("tiu", group)], THING)
    best = draft.word("determiner", "the") + superlative(draft, adjective, False, False)
    predicate = best + draft.linked(noun.english, noun.esperanto)
    where = draft.lexicon.groups["area"].draw(draft.random)
    predicate = predicate + place(draft, where, None)
    return statement(copular_clause(draft, subject, Mood(_past_or_present(draft)), predicate)), "."


def _past_or_present(draft: Draft) -> str:
    return "past" if draft.chance(0.35) else "present"


def passive(draft: Draft) -> Sentence:
    """'The letter was written by Maria.' / 'La letero estis skribita de Maria.'"""
    verb = draft.lexicon.passives.draw(draft.random)
    assert verb.objects is not None
    subject = noun_phrase(draft, verb.objects.draw(draft.random), SUBJECT)
    tense = "past" if "d" in verb.flags or draft.chance(0.7) else "future"
    ending = "at" if "d" in verb.flags else "it"
    group = be_group(draft, subject.features, Mood(tense, negated=draft.chance(0.08)))
    form = inflect(f"{verb.stem}{ending}a", subject.features.plural, False)
    tail = draft.linked(verb.participle, form)
    if draft.chance(0.55):
        tail = tail + draft.word("agent", "by") + _agent(draft, verb).phrase
    clause = copular_clause(draft, subject, Mood(tense), tail)
    clause.verb = group
    if "d" not in verb.flags and draft.chance(0.4):
        clause.time = time(draft, tense)
        clause.eo_time_first = draft.chance(0.5)
    return statement(clause), "."


def _agent(draft: Draft, verb: Verb) -> NounPhrase:
    assert verb.subjects is not None
    if verb.personal and draft.chance(0.3):
        return name_phrase(draft)
    determiner = "a" if draft.chance(0.3) else "the"
    return noun_phrase(draft, verb.subjects.draw(draft.random), Need(determiner=determiner))


def weather(draft: Draft) -> Sentence:
    """'It rained yesterday.' / 'Hieraŭ pluvis.': 'it' and the verb are linked with the verb."""
    tense = _COPULA_TENSES.draw(draft.random)
    subject = pronoun(draft, THING)
    if draft.chance(0.6):
        verb = draft.lexicon.verbs["w"].draw(draft.random)
        aspect = "progressive" if tense == "present" else "simple"
        group = verb_group(draft, verb, THING, Mood(tense, aspect, negated=draft.chance(0.1)))
        tail = Phrase([], [])
    else:
        group = be_group(draft, THING, Mood(tense))
        english, esperanto = _WEATHER[draft.below(len(_WEATHER))]
        tail = draft.linked(english, esperanto)
    subject = replace_links(subject, group.eo[0][1])
    when = time(draft, "now" if tense == "present" else tense)
    where = place_in_area(draft)
    en = subject.en + group.front + group.negation + group.rest + tail.en + where.en + when.en
    eo = group.eo_negation + group.eo + tail.eo + where.eo
    return Phrase(en, when.eo + eo if draft.chance(0.5) else eo + when.eo), "."


def place_in_area(draft: Draft) -> Phrase:
    """A city, a country, a landscape."""
    if draft.chance(0.5):
        return draft.word("preposition", "in") + place_name(draft, "city" if draft.chance(0.5) else "country")
    return place(draft, draft.lexicon.groups["area"].draw(draft.random), None)


def replace_links(subject: NounPhrase, link: int) -> NounPhrase:
    """`subject` without its Esperanto words, the English ones linked with `link`."""
    return replace(subject, en=[(form, link) for form, _ in subject.en], eo=[])


def price(draft: Draft) -> Sentence:
    """'This coat costs forty euros.' / 'Ĉi tiu mantelo kostas kvardek eŭrojn.'"""
    verb = draft.lexicon.verbs["q"].draw(draft.random)
    assert verb.subjects is not None
    subject = noun_phrase(draft, verb.subjects.draw(draft.random), Need(determiner=_definite(draft)))
    number = 2 + draft.below(900 if draft.chance(0.3) else 90)
    count = draft.linked(str(number), str(number)) if draft.chance(0.4) else draft.number(number)
    unit = draft.lexicon.groups["currency"].draw(draft.random)
    amount = count + draft.linked(unit.plural, inflect(unit.esperanto, True, True))
    mood = Mood(_past_or_present(draft), negated=draft.chance(0.1))
    group = verb_group(draft, verb, subject.features, mood)
    en = subject.en + group.front + group.negation + group.rest + amount.en
    return Phrase(en, subject.eo + group.eo_negation + group.eo + amount.eo), "."


def age(draft: Draft) -> Sentence:
    """'Maria is twelve years old.' / 'Maria havas dek du jarojn.': 'old' is linked with nothing."""
    subject = person_subject(draft)
    year = draft.lexicon.nouns["year"]
    number = 2 + draft.below(90)
    count = draft.linked(str(number), str(number)) if draft.chance(0.3) else draft.number(number)
    amount = count + draft.linked(year.plural, inflect(year.esperanto, True, True))
    group = be_group(draft, subject.features, Mood("present"))
    eo = [(finite("hav", "present"), group.eo[0][1])]
    return Phrase(subject.en + group.front + amount.en + [("old", 0)], subject.eo + eo + amount.eo), "."


def lasting(draft: Draft) -> Sentence:
    """'They waited for three hours behind the station.'"""
    verb = draft.lexicon.verbs["i"].draw(draft.random)
    while "l" not in verb.flags:
        verb = draft.lexicon.verbs["i"].draw(draft.random)
    subject = person_subject(draft)
    tense = "past" if draft.chance(0.75) else "future"
    clause = verbal_clause(draft, verb, subject, Mood(tense), adverbs=False)
    clause.time = duration(draft)
    clause.eo_time_first = draft.chance(0.2)
    return statement(clause), "."


def imperative(draft: Draft) -> Sentence:
    """'Open the window!', 'Please wait!', 'Do not touch it!', 'Let us go!'"""
    verb = draft.lexicon.actions.draw(draft.random)
    you, us = Features(2, False, ""), Features(1, True, "")
    main, roll = draft.group(), draft.random()
    together = roll >= 0.85
    tail = complements(draft, verb, us if together else you, main, plain=True)
    en, form = [(verb.english, main)], (finite(verb.stem, "imperative"), main)
    if together:
        we = draft.linked("us", "ni")
        return Phrase([("let", main), *we.en, *en, *tail.en], [*we.eo, form, *tail.eo]), "."
    if roll < 0.25:
        lead = draft.word("particle", "please")
        phrase = Phrase(lead.en + en + tail.en, [*lead.eo, (verb.stem + "i", main), *tail.eo])
        return phrase, "." if draft.chance(0.6) else "!"
    if roll < 0.45:
        lead = draft.word("particle", "not")
        return Phrase([("do", main), *lead.en, *en, *tail.en], [*lead.eo, form, *tail.eo]), "!"
    phrase = Phrase(en + tail.en, [form, *tail.eo])
    if roll < 0.55:
        group = draft.group()
        name = name_phrase(draft)
        phrase = Phrase([*name.en, (",", group), *phrase.en], [*name.eo, (",", group), *phrase.eo])
    return phrase, "!"
