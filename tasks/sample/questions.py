"""Questions, direct and indirect."""

from tasks.sample.choice import Choice
from tasks.sample.clauses import (
    Clause,
    any_mood,
    complements,
    copular_clause,
    draw_predicate,
    object_of,
    particle_phrase,
    person_relative_subject,
    person_subject,
    polar_question,
    predicate_adjective,
    predicates_of,
    subject_of,
    verbal_clause,
)
from tasks.sample.draft import Draft, Features, Phrase, Token
from tasks.sample.esperanto import inflect
from tasks.sample.lexicon import Noun, Verb
from tasks.sample.noun_phrases import Need, NounPhrase, any_pronoun, noun_phrase, pronoun
from tasks.sample.places import time
from tasks.sample.simple_sentences import Sentence, any_verb, copular_subject
from tasks.sample.verb_groups import Mood, VerbGroup, be_group, verb_group

_TENSES = Choice(("present", "past", "future"), (45, 40, 15))
_WHO = Features(3, False, "")
_REASONS = Choice(("why", "when", "how"), (45, 35, 20))


def polar(draft: Draft) -> Sentence:
    """'Does she read the book?', 'Is the house big?', 'Can you help us?'"""
    if draft.chance(0.3):
        subject = copular_subject(draft)
        adjectives = predicates_of(draft, subject)
        if adjectives is not None:
            predicate = predicate_adjective(draft, subject, draw_predicate(draft, subject, adjectives))
            mood = Mood(_TENSES.draw(draft.random))
            return polar_question(draft, copular_clause(draft, subject, mood, predicate)), "?"
    verb = any_verb(draft)
    subject = subject_of(draft, verb) if draft.chance(0.5) or not verb.personal else pronoun(draft, any_pronoun(draft))
    return polar_question(draft, verbal_clause(draft, verb, subject, _inverted(draft, verb))), "?"


def _inverted(draft: Draft, verb: Verb) -> Mood:
    mood = any_mood(draft, verb)
    if mood.modal and mood.tense == "past" and mood.modal == "must":
        return Mood("past", inverted=True)
    return Mood(mood.tense, mood.aspect, mood.negated and draft.chance(0.3), inverted=True, modal=mood.modal)


def _question_mood(draft: Draft) -> Mood:
    return Mood(_TENSES.draw(draft.random), inverted=True)


def _inversion(verb: VerbGroup, subject: NounPhrase) -> list[Token]:
    return verb.front + subject.en + verb.negation + verb.rest


def subject_question(draft: Draft) -> Sentence:
    """'Who opened the window?'"""
    verb = any_verb(draft)
    if not verb.personal:
        return polar(draft)
    word = draft.word("interrogative", "who")
    subject = NounPhrase(word.en, word.eo, _WHO)
    clause = verbal_clause(draft, verb, subject, any_mood(draft, verb))
    clause.en_time_first = clause.eo_time_first = False
    return _declarative(clause), "?"


def _declarative(clause: Clause) -> Phrase:
    verb, end = clause.verb, clause.tail + clause.time
    en = clause.subject.en + verb.front + verb.negation + clause.middle.en + verb.rest + end.en
    return Phrase(en, clause.subject.eo + verb.eo_negation + clause.middle.eo + verb.eo + end.eo)


def _asked(draft: Draft, verb: Verb, noun: Noun) -> Phrase:
    """The questioned object in front: what, whom, which or whose with a noun, how many."""
    roll, accusative = draft.random(), not verb.preposition
    if roll < 0.4:
        if noun.group == "person":
            return draft.linked("whom" if draft.chance(0.5) else "who", inflect("kiu", False, accusative))
        return draft.linked("what", inflect("kio", False, accusative))
    plural = not noun.mass and draft.chance(0.25)
    head = draft.linked(noun.plural if plural else noun.english, inflect(noun.esperanto, plural, accusative))
    if roll < 0.75 or noun.mass or "kin" in noun.tags:
        return draft.linked("which", inflect("kiu", plural, accusative)) + head
    if roll < 0.87 and noun.group != "person":
        return draft.word("interrogative", "whose") + head
    count = draft.linked("how many", "kiom da")
    return count + draft.linked(noun.plural, inflect(noun.esperanto, True, False))


def object_question(draft: Draft) -> Sentence:
    """'What do you see?', 'Which book did he buy?', 'How many apples ...?'"""
    verb = draft.lexicon.verbs["t"].draw(draft.random)
    assert verb.objects is not None
    if not verb.personal:
        return polar(draft)
    asked = _asked(draft, verb, verb.objects.draw(draft.random))
    subject = person_relative_subject(draft) if draft.chance(0.7) else person_subject(draft)
    group = verb_group(draft, verb, subject.features, _question_mood(draft))
    particle = particle_phrase(draft, verb, group)
    en = asked.en + _inversion(group, subject) + particle.en
    return Phrase(en, particle.eo + asked.eo + subject.eo + group.eo), "?"


def place_question(draft: Draft) -> Sentence:
    """'Where is the key?', 'Where does she live?', 'Where did they go?' ('kien')."""
    roll, mood = draft.random(), _question_mood(draft)
    if roll < 0.45:
        subject = copular_subject(draft)
        group = be_group(draft, subject.features, mood)
        word = draft.word("interrogative", "where")
        eo = group.eo + subject.eo if draft.chance(0.6) else subject.eo + group.eo
        return Phrase(word.en + _inversion(group, subject), word.eo + eo), "?"
    motion = roll > 0.7
    verb = draft.lexicon.verbs["m" if motion else "i"].draw(draft.random)
    while not verb.personal or verb.objects is None:
        verb = draft.lexicon.verbs["m" if motion else "i"].draw(draft.random)
    subject = person_subject(draft)
    word = draft.linked("where", "kien" if motion and verb.english != "come" else "kie")
    group = verb_group(draft, verb, subject.features, mood)
    if verb.english == "come":
        from_word = draft.group()
        return Phrase(
            [*word.en, *_inversion(group, subject), ("from", from_word)],
            [("de", from_word), *word.eo, *subject.eo, *group.eo],
        ), "?"
    return Phrase(word.en + _inversion(group, subject), word.eo + subject.eo + group.eo), "?"


def adverbial_question(draft: Draft) -> Sentence:
    """'Why is she sad?', 'When will they sell the house?'"""
    lemma = _REASONS.draw(draft.random)
    word = draft.word("interrogative", lemma)
    if lemma == "why" and draft.chance(0.4):
        subject = copular_subject(draft)
        adjectives = predicates_of(draft, subject)
        if adjectives is not None:
            group = be_group(draft, subject.features, Mood(_TENSES.draw(draft.random), negated=draft.chance(0.15)))
            tail = predicate_adjective(draft, subject, draw_predicate(draft, subject, adjectives))
            en = word.en + _inversion(group, subject) + tail.en
            return Phrase(en, word.eo + subject.eo + group.eo_negation + group.eo + tail.eo), "?"
    verb = any_verb(draft)
    while not verb.personal or (lemma != "why" and "s" in verb.flags) or (lemma == "how" and verb.frame != "t"):
        verb = any_verb(draft)
    subject = person_subject(draft)
    negated = lemma == "why" and draft.chance(0.2)
    mood = Mood(_TENSES.draw(draft.random), negated=negated, inverted=True)
    group = verb_group(draft, verb, subject.features, mood)
    if lemma == "how":
        tail = particle_phrase(draft, verb, group) + object_of(draft, verb, subject.features, plain=True).phrase
    else:
        tail = complements(draft, verb, subject.features, group.eo[-1][1], plain=True)
    if lemma == "why" and mood.tense != "present" and draft.chance(0.2):
        tail = tail + time(draft, mood.tense)
    en = word.en + _inversion(group, subject) + tail.en
    return Phrase(en, word.eo + subject.eo + group.eo_negation + group.eo + tail.eo), "?"


def indirect(draft: Draft) -> Sentence:
    """'I do not know where the key is.' / 'Mi ne scias, kie estas la ŝlosilo.'"""
    asker = person_relative_subject(draft)
    know = next(verb for verb in draft.lexicon.verbs["c"].items if verb.english == "know")
    main = verb_group(draft, know, asker.features, Mood("present", negated=draft.chance(0.75)))
    roll = draft.random()
    if roll < 0.4:
        subject = copular_subject(draft)
        group = be_group(draft, subject.features, Mood("present" if draft.chance(0.6) else "past"))
        word = draft.word("interrogative", "where")
        inner = Phrase(word.en + subject.en + group.front + group.rest, word.eo + group.eo + subject.eo)
    else:
        subject, verb = person_subject(draft), any_verb(draft)
        while not verb.personal:
            verb = any_verb(draft)
        word = draft.word("subordinator", "whether") if roll < 0.75 else draft.word("interrogative", "why")
        group = verb_group(draft, verb, subject.features, Mood(_TENSES.draw(draft.random)))
        tail = complements(draft, verb, subject.features, group.eo[-1][1], plain=True)
        inner = word + Phrase(subject.en + group.front + group.rest + tail.en, subject.eo + group.eo + tail.eo)
    en = asker.en + main.front + main.negation + main.rest + inner.en
    return Phrase(en, [*asker.eo, *main.eo_negation, *main.eo, (",", 0), *inner.eo]), "."


def which_noun(draft: Draft) -> Sentence:
    """'Which house is bigger?' has no object: a subject with 'kiu'."""
    noun = draft.lexicon.groups["building"].draw(draft.random)
    if noun.predicates is None:
        return polar(draft)
    plural = draft.chance(0.3)
    base = noun_phrase(draft, noun, Need(determiner="bare" if plural else "none", singular=not plural))
    subject = NounPhrase([], [], base.features, noun)
    word = draft.linked("which", inflect("kiu", base.features.plural, False))
    group = be_group(draft, base.features, Mood(_TENSES.draw(draft.random)))
    tail = predicate_adjective(draft, subject, noun.predicates.draw(draft.random))
    phrase = word + base.phrase + Phrase(group.front + group.rest, group.eo)
    return phrase + tail, "?"
