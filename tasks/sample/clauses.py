"""Clauses: a subject, a verb group, complements and adverbials, each side put into its own order."""

from dataclasses import dataclass, field

from tasks.sample.choice import Choice
from tasks.sample.draft import EMPTY, Draft, Features, Phrase, Token
from tasks.sample.esperanto import inflect
from tasks.sample.lexicon import Adjective, Noun, Verb
from tasks.sample.noun_phrases import (
    SUBJECT,
    Need,
    NounPhrase,
    any_pronoun,
    coordinated,
    name_phrase,
    noun_phrase,
    prepositional_pronoun,
    pronoun,
)
from tasks.sample.places import any_place, goal, personal_goal, place, time
from tasks.sample.verb_groups import Mood, VerbGroup, be_group, verb_group

_TENSES = Choice(("present", "past", "future"), (42, 43, 15))
THING = Features(3, False, "n")
THINGS = Features(3, True, "")


@dataclass(slots=True)
class Clause:
    """A clause before its words are in order; `middle` is an adverb between auxiliary and verb."""

    subject: NounPhrase
    verb: VerbGroup
    tail: Phrase
    middle: Phrase = field(default_factory=lambda: EMPTY)
    time: Phrase = field(default_factory=lambda: EMPTY)
    en_time_first: bool = False
    eo_time_first: bool = False


def person_subject(draft: Draft, nouns: Choice[Noun] | None = None) -> NounPhrase:
    """A person as a subject: pronoun, name, phrase, or two of them."""
    roll = draft.random()
    if roll < 0.42:
        return pronoun(draft, any_pronoun(draft))
    if roll < 0.58:
        return name_phrase(draft)
    noun = (nouns or draft.lexicon.groups["person"]).draw(draft.random)
    if roll > 0.95 and noun.group == "person":
        other = noun_phrase(draft, noun, Need(determiner="own" if "kin" in noun.tags else "the", singular=True))
        return coordinated(draft, name_phrase(draft), other)
    phrase = noun_phrase(draft, noun, SUBJECT)
    return modified(draft, phrase) if noun.group == "person" else phrase


def subject_of(draft: Draft, verb: Verb) -> NounPhrase:
    """A subject that fits `verb`."""
    if verb.personal:
        return person_subject(draft, verb.subjects)
    assert verb.subjects is not None
    return modified(draft, noun_phrase(draft, verb.subjects.draw(draft.random), SUBJECT))


def object_of(draft: Draft, verb: Verb, subject: Features, plain: bool = False) -> NounPhrase:
    """An object that fits `verb`, in the case that the verb asks for."""
    assert verb.objects is not None
    noun = verb.objects.draw(draft.random)
    accusative = not verb.preposition
    if noun.group == "person" and "kin" not in noun.tags and draft.chance(0.4):
        return person_object(draft, subject, accusative)
    if noun.group != "person" and noun.group != "abstract" and draft.chance(0.04):
        features = THING if noun.mass or draft.chance(0.6) else THINGS
        return pronoun(draft, features, True) if accusative else prepositional_pronoun(draft, features)
    phrase = noun_phrase(draft, noun, Need(accusative=accusative, binder=subject))
    if plain:
        return phrase
    if draft.chance(0.04) and not noun.mass and "own" not in noun.tags:
        other = verb.objects.draw(draft.random)
        if other is not noun and other.group == noun.group:
            return coordinated(draft, phrase, noun_phrase(draft, other, Need(accusative=accusative, binder=subject)))
    return modified(draft, phrase)


def person_object(draft: Draft, subject: Features, accusative: bool) -> NounPhrase:
    """A pronoun or name as an object; a pronoun is never the subject's own person."""
    if draft.chance(0.35):
        return name_phrase(draft, accusative)
    features = any_pronoun(draft)
    while features.person == subject.person and (features.person < 3 or features.plural == subject.plural):
        features = any_pronoun(draft)
    return pronoun(draft, features, True) if accusative else prepositional_pronoun(draft, features)


def modified(draft: Draft, phrase: NounPhrase) -> NounPhrase:
    """`phrase`, now and then with a relative clause or a place."""
    noun = phrase.noun
    if noun is None or phrase.pronoun or "unique" in noun.tags or noun.group in ("season", "abstract", "body", "sport"):
        return phrase
    roll = draft.random()
    if roll < 0.1:
        return _with_clause(draft, phrase, noun)
    if roll < 0.15 and noun.group in ("small", "person") and "kin" not in noun.tags:
        surface = draft.lexicon.groups["surface" if noun.group == "small" else "room"].draw(draft.random)
        added = place(draft, surface, None)
        return NounPhrase(phrase.en + added.en, phrase.eo + added.eo, phrase.features, noun)
    return phrase


def _with_clause(draft: Draft, phrase: NounPhrase, noun: Noun) -> NounPhrase:
    features = phrase.features
    clause: Phrase | None = None
    if noun.as_object is not None and draft.chance(0.5):
        verb = noun.as_object.draw(draft.random)
        clause = _object_relative(draft, verb, features, noun)
    elif noun.as_subject is not None and noun.group in ("person", "animal"):
        clause = _subject_relative(draft, noun.as_subject.draw(draft.random), features, noun)
    if clause is None:
        return phrase
    eo = [*phrase.eo, (",", 0), *clause.eo, (",", 0)]
    return NounPhrase(phrase.en + clause.en, eo, features, noun)


def _relative_word(draft: Draft, noun: Noun, subject: bool) -> str:
    if noun.group == "person":
        return "who" if subject else "whom" if draft.chance(0.3) else "that"
    return "which" if draft.chance(0.3) else "that"


def _subject_relative(draft: Draft, verb: Verb, head: Features, noun: Noun) -> Phrase:
    mood = simple_mood(draft, verb)
    group = verb_group(draft, verb, head, mood)
    tail = complements(draft, verb, head, plain=True)
    word = draft.linked(_relative_word(draft, noun, True), inflect("kiu", head.plural, False))
    return word + Phrase(group.front + group.negation + group.rest, group.eo_negation + group.eo) + tail


def _object_relative(draft: Draft, verb: Verb, head: Features, noun: Noun) -> Phrase:
    subject = person_relative_subject(draft) if verb.personal else subject_of(draft, verb)
    group = verb_group(draft, verb, subject.features, simple_mood(draft, verb))
    relative = "that" if verb.preposition else _relative_word(draft, noun, False)
    word = draft.linked(relative, inflect("kiu", head.plural, not verb.preposition))
    particle = particle_phrase(draft, verb, group)
    en = word.en + subject.en + group.front + group.negation + group.rest + particle.en
    return Phrase(en, particle.eo + word.eo + subject.eo + group.eo_negation + group.eo)


def person_relative_subject(draft: Draft) -> NounPhrase:
    """A short subject: pronoun or name."""
    return name_phrase(draft) if draft.chance(0.3) else pronoun(draft, any_pronoun(draft))


def simple_mood(draft: Draft, verb: Verb) -> Mood:
    """A simple tense, seldom negated."""
    tense = _TENSES.draw(draft.random)
    return Mood(tense=tense, negated=draft.chance(0.08))


def any_mood(draft: Draft, verb: Verb) -> Mood:
    """Tense, aspect, polarity and modality of a main clause with `verb`."""
    tense = _TENSES.draw(draft.random)
    negated = draft.chance(0.12)
    roll = draft.random()
    if "s" not in verb.flags:
        if tense != "future" and roll < 0.2:
            return Mood(tense, "progressive", negated)
        if verb.personal and roll < 0.34:
            modal = "can" if draft.chance(0.6) else "must"
            if tense == "present" and draft.chance(0.35):
                modal = "should" if draft.chance(0.6) else "may"
            return Mood(tense, "", negated and modal != "must", modal=modal)
    if tense == "past" and roll > 0.85 and "s" not in verb.flags:
        return Mood(tense, "perfect", negated=False)
    return Mood(tense, "simple", negated)


def particle_phrase(draft: Draft, verb: Verb, group: VerbGroup | None = None, main: int = 0) -> Phrase:
    """English particle and Esperanto preposition of `verb`; one without a counterpart is linked with the verb."""
    own = main or (group.eo[-1][1] if group is not None else 0)
    if verb.particle and verb.preposition:
        return draft.linked(" ".join(verb.particle), verb.preposition)
    en: list[Token] = [(word, own) for word in verb.particle]
    return Phrase(en, [(verb.preposition, own)] if verb.preposition else [])


def complements(draft: Draft, verb: Verb, subject: Features, main: int = 0, plain: bool = False) -> Phrase:
    """What follows the verb by its frame; `main` is the link group of the verb, for its particle."""
    if verb.frame == "t":
        obj = object_of(draft, verb, subject, plain)
        return particle_phrase(draft, verb, main=main) + obj.phrase + _manner(draft, verb)
    if verb.frame == "g":
        return giving(draft, verb, subject)
    if verb.frame == "m":
        assert verb.objects is not None
        target = verb.objects.draw(draft.random)
        way = personal_goal if verb.personal and "place" in target.tags and verb.english != "sail" else goal
        return _manner(draft, verb, 0.15) + way(draft, target, subject)
    tail = _manner(draft, verb, 0.35)
    if verb.objects is not None and ("b" in verb.flags or not tail.en or draft.chance(0.5)):
        tail = tail + place(draft, verb.objects.draw(draft.random), subject)
    return tail


def _manner(draft: Draft, verb: Verb, probability: float = 0.12) -> Phrase:
    if verb.manner is None or not draft.chance(probability):
        return EMPTY
    adverb = verb.manner.draw(draft.random)
    return draft.linked(adverb.english, adverb.esperanto)


def giving(draft: Draft, verb: Verb, subject: Features) -> Phrase:
    """Object and recipient, in either order on each side."""
    assert verb.objects is not None
    noun = verb.objects.draw(draft.random)
    obj = noun_phrase(draft, noun, Need(accusative=True, binder=subject)).phrase
    if draft.chance(0.45):
        to = person_object(draft, subject, accusative=False).phrase
    else:
        to = noun_phrase(draft, draft.lexicon.groups["person"].draw(draft.random), Need(binder=subject)).phrase
    group = draft.group()
    short = draft.chance(0.45) and verb.english not in ("return", "promise")
    en = to.en + obj.en if short else [*obj.en, ("to", group), *to.en]
    al: list[Token] = [("al", 0 if short else group)]
    eo = al + to.eo + obj.eo if draft.chance(0.45) else obj.eo + al + to.eo
    return Phrase(en, eo)


def time_kind(mood: Mood) -> str:
    """The kind of time expression that fits `mood`."""
    if mood.tense == "present":
        return "now" if mood.aspect == "progressive" or mood.modal else "habit"
    return mood.tense


def verbal_clause(draft: Draft, verb: Verb, subject: NounPhrase, mood: Mood, adverbs: bool = True) -> Clause:
    """A clause of `verb` with its complements, adverbs and time."""
    group = verb_group(draft, verb, subject.features, mood)
    clause = Clause(subject, group, complements(draft, verb, subject.features, group.eo[-1][1]))
    if mood.aspect == "perfect":
        clause.middle = _adverb(draft, "perfect")
    elif adverbs:
        _add_adverbs(draft, clause, verb, mood)
    return clause


def _adverb(draft: Draft, kind: str) -> Phrase:
    adverb = draft.lexicon.adverbs[kind].draw(draft.random)
    return draft.linked(adverb.english, adverb.esperanto)


def _add_adverbs(draft: Draft, clause: Clause, verb: Verb, mood: Mood) -> None:
    habitual = mood.aspect == "simple" and mood.tense != "future" and "s" not in verb.flags
    if habitual and draft.chance(0.12):
        never = not mood.negated and draft.chance(0.2)
        clause.middle = _adverb(draft, "negative" if never else "frequency")
        return
    stative = "s" in verb.flags and mood.tense == "present"
    if not stative and mood.tense in ("present", "past", "future") and draft.chance(0.36):
        clause.time = time(draft, time_kind(mood))
        clause.en_time_first = draft.chance(0.2)
        clause.eo_time_first = draft.chance(0.45)
    elif verb.personal and verb.frame == "t" and not verb.flags & {"s", "p"} and draft.chance(0.25):
        clause.tail = clause.tail + any_place(draft, clause.subject.features)


def copular_clause(draft: Draft, subject: NounPhrase, mood: Mood, predicate: Phrase) -> Clause:
    """A clause of 'be' with `predicate`."""
    return Clause(subject, be_group(draft, subject.features, mood), predicate)


def predicate_adjective(draft: Draft, subject: NounPhrase, adjective: Adjective, degree: bool = True) -> Phrase:
    """An adjective after 'be', agreeing with the subject; now and then with 'very' and the like."""
    phrase = draft.linked(adjective.english, inflect(adjective.esperanto, subject.features.plural, False))
    if degree and adjective.gradable and draft.chance(0.2):
        adverb = draft.lexicon.adverbs["degree"].draw(draft.random)
        phrase = draft.linked(adverb.english, adverb.esperanto) + phrase
    return phrase


def draw_predicate(draft: Draft, subject: NounPhrase, adjectives: Choice[Adjective]) -> Adjective:
    """One of `adjectives` that `subject` does not already contain."""
    said = {form for form, _ in subject.en}
    adjective = adjectives.draw(draft.random)
    for _ in range(9):
        if adjective.english not in said and not said.intersection(adjective.forms or ()):
            break
        adjective = adjectives.draw(draft.random)
    return adjective


def predicates_of(draft: Draft, subject: NounPhrase) -> Choice[Adjective] | None:
    """Adjectives that can be said of `subject`."""
    return draft.lexicon.person_adjectives if subject.noun is None else subject.noun.predicates


def statement(clause: Clause) -> Phrase:
    """The words of a declarative clause."""
    verb = clause.verb
    en = clause.subject.en + verb.front + verb.negation + clause.middle.en + verb.rest + clause.tail.en
    eo = clause.subject.eo + verb.eo_negation + clause.middle.eo + verb.eo + clause.tail.eo
    return Phrase(
        clause.time.en + en if clause.en_time_first else en + clause.time.en,
        clause.time.eo + eo if clause.eo_time_first else eo + clause.time.eo,
    )


def polar_question(draft: Draft, clause: Clause) -> Phrase:
    """The words of a yes/no question: an empty 'do' is linked with 'ĉu', any other auxiliary with its verb."""
    verb = clause.verb
    group = draft.group()
    front = [(form, group) for form, _ in verb.front] if verb.do else verb.front
    en = front + clause.subject.en + verb.negation + clause.middle.en + verb.rest + clause.tail.en + clause.time.en
    eo = clause.subject.eo + verb.eo_negation + clause.middle.eo + verb.eo + clause.tail.eo + clause.time.eo
    return Phrase(en, [("ĉu", group if verb.do else 0), *eo])
