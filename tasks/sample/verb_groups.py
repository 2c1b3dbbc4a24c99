"""The verb group: English auxiliaries and word order against one Esperanto form."""

from dataclasses import dataclass

from tasks.sample import english
from tasks.sample.draft import Draft, Features, Token
from tasks.sample.esperanto import finite
from tasks.sample.lexicon import Verb

MODALS = {
    # English words in the other tenses; the Esperanto verb is in the lexicon
    "can": {"past": ("could",), "future": ("will", "be", "able", "to")},
    "must": {"past": ("had", "to"), "future": ("will", "have", "to")},
}


@dataclass(frozen=True, slots=True)
class Mood:
    """Tense and form of a finite clause.

    Attributes:
        tense: Esperanto tense: present, past, future or conditional.
        aspect: English aspect: simple, progressive or perfect; '' with modals.
        negated: with 'not' / 'ne'.
        inverted: the English auxiliary stands before the subject, so 'do' is needed.
        backshift: English takes the present for a future, the past for a conditional (in clauses of time, condition).
        modal: '', or an English modal of the lexicon.
    """

    tense: str = "present"
    aspect: str = "simple"
    negated: bool = False
    inverted: bool = False
    backshift: bool = False
    modal: str = ""


@dataclass(slots=True)
class VerbGroup:
    """The words of a verb: `front` may stand before the subject; `do` says that it is the empty auxiliary.

    Attributes:
        front: English auxiliary (or nothing).
        negation: English 'not' (or nothing).
        rest: English words after the place of adverbs.
        eo_negation: 'ne' or nothing.
        eo: Esperanto words after the place of adverbs.
        do: the front is a form of 'do'.
    """

    front: list[Token]
    negation: list[Token]
    rest: list[Token]
    eo_negation: list[Token]
    eo: list[Token]
    do: bool = False


def _english_tense(mood: Mood) -> str:
    if mood.backshift:
        return "past" if mood.tense == "conditional" else "present"
    return mood.tense


def verb_group(draft: Draft, verb: Verb, subject: Features, mood: Mood) -> VerbGroup:
    """The group of a full verb.

    All English words of the verb, auxiliaries included, are linked with the Esperanto form; 'not' with 'ne'. A modal
    is linked with its own verb, and then the infinitive with the infinitive.
    """
    negation, ne = _negation(draft, mood)
    group = draft.group()
    if mood.modal:
        return _modal_group(draft, verb, mood, negation, ne)
    words, do = _english_words(verb, subject, mood)
    tokens = [(word, group) for word in words]
    front, rest = (tokens[:1], tokens[1:]) if len(words) > 1 else ([], tokens)
    return VerbGroup(front, negation, rest, ne, [(finite(verb.stem, mood.tense), group)], do)


def _negation(draft: Draft, mood: Mood) -> tuple[list[Token], list[Token]]:
    if not mood.negated:
        return [], []
    word = draft.word("particle", "not")
    return word.en, word.eo


def _english_words(verb: Verb, subject: Features, mood: Mood) -> tuple[tuple[str, ...], bool]:
    tense = _english_tense(mood)
    third = subject.person == 3 and not subject.plural
    if tense in ("future", "conditional"):
        return ("will" if tense == "future" else "would", verb.english), False
    if mood.aspect == "progressive":
        return (english.be(tense == "past", subject.person, subject.plural), verb.ing), False
    if mood.aspect == "perfect":
        return ("has" if third else "have", verb.participle), False
    if mood.negated or mood.inverted:
        return ("did" if tense == "past" else "does" if third else "do", verb.english), True
    if tense == "past":
        return (verb.past,), False
    return (verb.third if third else verb.english,), False


def _modal_group(draft: Draft, verb: Verb, mood: Mood, negation: list[Token], ne: list[Token]) -> VerbGroup:
    words = (mood.modal,) if mood.tense == "present" else MODALS[mood.modal][mood.tense]
    base = draft.lexicon.functions["modal", mood.modal]
    form = base if mood.tense == "present" else finite(base[:-2], mood.tense)
    modal, main = draft.group(), draft.group()
    front = [(words[0], modal)]
    rest = [*((word, modal) for word in words[1:]), (verb.english, main)]
    if negation and words == ("can",) and not mood.inverted:
        front, negation, ne = [("cannot", modal)], [], [("ne", modal)]
    return VerbGroup(front, negation, rest, ne, [(form, modal), (verb.stem + "i", main)])


def be_group(draft: Draft, subject: Features, mood: Mood) -> VerbGroup:
    """The group of the copula: 'is', 'was', 'will be', 'would be'."""
    negation, ne = _negation(draft, mood)
    group = draft.group()
    tense = _english_tense(mood)
    if tense in ("future", "conditional"):
        words: tuple[str, ...] = ("will" if tense == "future" else "would", "be")
    elif mood.backshift and tense == "past":
        words = ("were",)
    else:
        words = (english.be(tense == "past", subject.person, subject.plural),)
    tokens = [(word, group) for word in words]
    return VerbGroup(tokens[:1], negation, tokens[1:], ne, [(finite("est", mood.tense), group)])
