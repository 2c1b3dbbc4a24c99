"""Sentences of more than one clause, and infinitives."""

from tasks.sample.choice import Choice
from tasks.sample.clauses import (
    any_mood,
    complements,
    copular_clause,
    draw_predicate,
    person_object,
    person_subject,
    predicate_adjective,
    statement,
    subject_of,
    verbal_clause,
)
from tasks.sample.draft import Draft, Features, Phrase, Token
from tasks.sample.lexicon import Verb
from tasks.sample.noun_phrases import NounPhrase, any_pronoun, name_phrase, pronoun, referent
from tasks.sample.places import goal, time
from tasks.sample.simple_sentences import Sentence, any_verb, quality
from tasks.sample.verb_groups import Mood, verb_group

_TENSES = Choice(("present", "past", "future"), (40, 45, 15))
_TIMES = Choice(("when", "before", "after", "while", "as soon as"), (45, 15, 15, 13, 12))
_COMMA: Token = (",", 0)


def _comma_before(inner: Phrase) -> Phrase:
    """`inner` as a subordinate clause: Esperanto puts a comma before it, English none."""
    return Phrase(inner.en, [_COMMA, *inner.eo])


def _linked_comma(draft: Draft) -> Phrase:
    group = draft.group()
    return Phrase([(",", group)], [(",", group)])


def _clause(draft: Draft, subject: NounPhrase, mood: Mood, actions: bool = False) -> Phrase:
    """A short clause about a person."""
    verb = draft.lexicon.actions.draw(draft.random) if actions else _personal_verb(draft)
    return statement(verbal_clause(draft, verb, subject, mood, adverbs=False))


def _personal_verb(draft: Draft) -> Verb:
    verb = any_verb(draft)
    while not verb.personal:
        verb = any_verb(draft)
    return verb


def _again(draft: Draft, subject: NounPhrase) -> NounPhrase:
    """The subject of a second clause: mostly a pronoun for that of the first."""
    if draft.chance(0.6):
        return pronoun(draft, referent(draft, subject.features))
    return pronoun(draft, any_pronoun(draft)) if draft.chance(0.5) else person_subject(draft)


def _state(draft: Draft, subject: NounPhrase, mood: Mood) -> Phrase:
    """A clause that gives a reason: how somebody is, or what they want."""
    if draft.chance(0.5):
        adjective = draw_predicate(draft, subject, draft.lexicon.person_adjectives)
        return statement(copular_clause(draft, subject, mood, predicate_adjective(draft, subject, adjective)))
    if draft.chance(0.5):
        return _wish(draft, subject, draft.lexicon.verbs["x"].items[0], mood)
    verb = draft.lexicon.conditions.draw(draft.random)
    return statement(verbal_clause(draft, verb, subject, mood, adverbs=False))


def _wish(draft: Draft, subject: NounPhrase, verb: Verb, mood: Mood) -> Phrase:
    """'wants to read a book': 'to' and the verb are linked with the infinitive."""
    group = verb_group(draft, verb, subject.features, mood)
    inner = infinitive(draft, draft.lexicon.actions.draw(draft.random), subject.features)
    en = subject.en + group.front + group.negation + group.rest + inner.en
    return Phrase(en, subject.eo + group.eo_negation + group.eo + inner.eo)


def infinitive(draft: Draft, verb: Verb, subject: Features) -> Phrase:
    """'to read the book' / 'legi la libron'."""
    main = draft.group()
    tail = complements(draft, verb, subject, main, plain=True)
    return Phrase([("to", main), (verb.english, main), *tail.en], [(verb.stem + "i", main), *tail.eo])


def wish(draft: Draft) -> Sentence:
    """'She wants to buy a new car.'"""
    verb = draft.lexicon.verbs["x"].draw(draft.random)
    mood = Mood(_TENSES.draw(draft.random), negated=draft.chance(0.15))
    phrase = _wish(draft, person_subject(draft), verb, mood)
    if mood.tense == "future" and draft.chance(0.2):
        phrase = time(draft, "future") + phrase
    return phrase, "."


def request(draft: Draft) -> Sentence:
    """'He asked me to open the window.' / 'Li petis min malfermi la fenestron.'"""
    subject = person_subject(draft)
    verb = next(verb for verb in draft.lexicon.verbs["r"].items)
    group = verb_group(draft, verb, subject.features, Mood(_TENSES.draw(draft.random)))
    other = person_object(draft, subject.features, accusative=True)
    inner = infinitive(draft, draft.lexicon.actions.draw(draft.random), other.features)
    en = subject.en + group.front + group.rest + other.en + inner.en
    return Phrase(en, subject.eo + group.eo + other.eo + inner.eo), "."


def content(draft: Draft) -> Sentence:
    """'I think that she is right.', 'He said that he would come.' (Esperanto keeps the speaker's future)."""
    verb = draft.lexicon.verbs["c"].draw(draft.random)
    subject = person_subject(draft)
    past = draft.chance(0.35)
    group = verb_group(draft, verb, subject.features, Mood("past" if past else "present", negated=draft.chance(0.08)))
    that = draft.word("subordinator", "that")
    inner = _told_later(draft, _again(draft, subject)) if past else _content_now(draft, _again(draft, subject))
    if not past and draft.chance(0.2):
        inner = quality(draft)[0]
    inner = _comma_before(that + inner)
    en = subject.en + group.front + group.negation + group.rest + inner.en
    return Phrase(en, subject.eo + group.eo_negation + group.eo + inner.eo), "."


def _content_now(draft: Draft, subject: NounPhrase) -> Phrase:
    if draft.chance(0.35):
        return _state(draft, subject, Mood(_TENSES.draw(draft.random)))
    verb = _personal_verb(draft)
    return statement(verbal_clause(draft, verb, subject, any_mood(draft, verb), adverbs=False))


def _told_later(draft: Draft, subject: NounPhrase) -> Phrase:
    """What was said of the future: 'would come' / 'venos'."""
    verb = draft.lexicon.actions.draw(draft.random)
    group = verb_group(draft, verb, subject.features, Mood("future", negated=draft.chance(0.1)))
    group.front = [("would", link) for _, link in group.front]
    tail = complements(draft, verb, subject.features, group.eo[-1][1], plain=True)
    en = subject.en + group.front + group.negation + group.rest + tail.en
    return Phrase(en, subject.eo + group.eo_negation + group.eo + tail.eo)


def reason(draft: Draft) -> Sentence:
    """'We stayed at home because we were tired.', also with 'although'."""
    subject = person_subject(draft)
    tense = _TENSES.draw(draft.random)
    lemma = "because" if draft.chance(0.75) else "although"
    main = _clause(draft, subject, Mood(tense, negated=draft.chance(0.15)))
    state = Mood("present" if tense == "future" else tense, negated=draft.chance(0.15))
    inner = draft.word("subordinator", lemma) + _state(draft, _again(draft, subject), state)
    if draft.chance(0.2):
        return inner + _linked_comma(draft) + main, "."
    return main + _comma_before(inner), "."


def when(draft: Draft) -> Sentence:
    """'When the guests come, we will eat.' / 'Kiam la gastoj venos, ni manĝos.'"""
    subject = person_subject(draft)
    tense = _TENSES.draw(draft.random)
    lemma = _TIMES.draw(draft.random)
    main = _clause(draft, subject, Mood(tense), actions=True)
    aspect = "progressive" if lemma == "while" and tense != "future" else "simple"
    mood = Mood(tense, aspect, backshift=tense == "future")
    inner = draft.word("subordinator", lemma) + _clause(draft, _again(draft, subject), mood, actions=True)
    if draft.chance(0.45):
        return inner + _linked_comma(draft) + main, "."
    return main + _comma_before(inner), "."


def condition(draft: Draft) -> Sentence:
    """'If it is true, ...' with the future, or 'If I had money, I would buy the house.' with -us."""
    unreal = draft.chance(0.55)
    tense = "conditional" if unreal else "future"
    subject = pronoun(draft, any_pronoun(draft)) if draft.chance(0.7) else name_phrase(draft)
    given = Mood(tense, negated=draft.chance(0.12), backshift=True)
    if unreal or draft.chance(0.4):
        inner = _state(draft, subject, given)
    else:
        inner = _clause(draft, subject, given, actions=True)
    inner = draft.word("subordinator", "if") + inner
    main = _clause(draft, _again(draft, subject), Mood(tense, negated=draft.chance(0.1)))
    if draft.chance(0.65):
        return inner + _linked_comma(draft) + main, "."
    return main + _comma_before(inner), "."


def two_clauses(draft: Draft) -> Sentence:
    """'Maria sings and Peter dances.'; with 'but' both languages have a comma."""
    first = person_subject(draft)
    second = person_subject(draft)
    tense = _TENSES.draw(draft.random)
    if draft.chance(0.45):
        but = _linked_comma(draft) + draft.word("conjunction", "but")
        return _clause(draft, first, Mood(tense)) + but + _clause(draft, second, Mood(tense, negated=True)), "."
    joined = _clause(draft, first, Mood(tense)) + draft.word("conjunction", "and")
    return joined + _clause(draft, second, Mood(tense)), "."


def two_verbs(draft: Draft) -> Sentence:
    """'The boy opened the door and ran into the garden.'"""
    subject = person_subject(draft)
    tense = _TENSES.draw(draft.random)
    first = _clause(draft, subject, Mood(tense), actions=True)
    verb = draft.lexicon.actions.draw(draft.random)
    group = verb_group(draft, verb, subject.features, Mood(tense))
    tail = complements(draft, verb, subject.features, group.eo[-1][1])
    rest = Phrase((group.rest if tense == "future" else group.front + group.rest) + tail.en, group.eo + tail.eo)
    return first + draft.word("conjunction", "and") + rest, "."


def purpose(draft: Draft) -> Sentence:
    """'She went to the market to buy bread.': 'to' is linked with 'por', the verb with the infinitive."""
    subject = person_subject(draft)
    verb = draft.lexicon.verbs["m"].items[draft.below(4)]
    target = draft.lexicon.groups["building" if draft.chance(0.6) else "outdoor"].draw(draft.random)
    while "place" not in target.tags:
        target = draft.lexicon.groups["building"].draw(draft.random)
    group = verb_group(draft, verb, subject.features, Mood(_TENSES.draw(draft.random)))
    way = goal(draft, target, subject.features)
    to = draft.linked("to", "por")
    inner = infinitive(draft, draft.lexicon.actions.draw(draft.random), subject.features)
    en = subject.en + group.front + group.rest + way.en + to.en + inner.en[1:]
    return Phrase(en, subject.eo + group.eo + way.eo + to.eo + inner.eo), "."


def observed(draft: Draft) -> Sentence:
    """'It seems that the dog is hungry.' / 'Ŝajnas, ke ...'; 'it' and 'seems' are linked with the verb."""
    group = draft.group()
    that = draft.word("subordinator", "that")
    verb = any_verb(draft)
    subject = subject_of(draft, verb)
    inner = that + statement(verbal_clause(draft, verb, subject, any_mood(draft, verb), adverbs=False))
    start = Phrase([("it", group), ("seems", group)], [("ŝajnas", group)])
    return start + _comma_before(inner), "."
