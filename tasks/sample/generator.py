"""The stream of sentence pairs.

Conventions of the gold alignment:

- A content word is linked with its equivalent; every auxiliary of a verb ('will', 'has', 'is' of 'is reading', 'do' of
  a negation) with the Esperanto form that it helps to express, a modal with 'povas', 'devas' and the like. 'cannot' is
  linked with 'ne' and 'povas'.
- In a yes/no question an empty 'do' is linked with 'ĉu'; any other auxiliary keeps its link, and 'ĉu' has none.
- 'a' and 'an' have no counterpart. 'the' is linked with 'la'. 'to' of an infinitive is linked with the infinitive; 'to'
  of a purpose with 'por'. 'there' of 'there is' is linked with the verb, and so is 'it' of the weather.
- "Maria's" is linked with 'de' and 'Maria'. A comparative in one word is linked with both words of 'pli granda'.
- Where English has no 'to' before a recipient ('gave Maria a book'), 'al' has no link.
- Punctuation is linked with punctuation; the commas that only Esperanto writes have no link.
"""

from collections.abc import Callable, Iterator

from tasks.sample import complex_sentences, questions, simple_sentences
from tasks.sample.choice import Choice
from tasks.sample.draft import Draft, SentencePair
from tasks.sample.lexicon import load_lexicon
from tasks.sample.simple_sentences import Sentence

Template = Callable[[Draft], Sentence]

TEMPLATES: tuple[tuple[Template, float], ...] = (
    (simple_sentences.plain, 30),
    (simple_sentences.quality, 8),
    (simple_sentences.profession, 3),
    (simple_sentences.existence, 3),
    (simple_sentences.comparison, 4),
    (simple_sentences.superlative_sentence, 1),
    (simple_sentences.passive, 4),
    (simple_sentences.weather, 1),
    (simple_sentences.price, 1),
    (simple_sentences.age, 1),
    (simple_sentences.lasting, 1.5),
    (simple_sentences.imperative, 4),
    (questions.polar, 6),
    (questions.subject_question, 1.5),
    (questions.object_question, 3),
    (questions.place_question, 2),
    (questions.adverbial_question, 2.5),
    (questions.which_noun, 0.5),
    (questions.indirect, 2.5),
    (complex_sentences.wish, 4.5),
    (complex_sentences.request, 1.5),
    (complex_sentences.content, 5),
    (complex_sentences.observed, 1),
    (complex_sentences.reason, 5),
    (complex_sentences.when, 4),
    (complex_sentences.condition, 4),
    (complex_sentences.two_clauses, 2.5),
    (complex_sentences.two_verbs, 2.5),
    (complex_sentences.purpose, 2),
)
"""The kinds of sentence with their weights."""


def generate_pairs(sentences: int, seed: int) -> Iterator[SentencePair]:
    """Yield `sentences` pairs; those of a smaller number with the same seed are the first of a larger one.

    Args:
        sentences: number of pairs, not negative; pairs may repeat, as short sentences do in text.
        seed: every seed has a stream of its own, the same on every machine.
    """
    draft = Draft(load_lexicon(), seed)
    choice = Choice([template for template, _ in TEMPLATES], [weight for _, weight in TEMPLATES])
    for _ in range(sentences):
        phrase, mark = choice.draw(draft.random)(draft)
        yield draft.finish(phrase, mark)
