"""English inflection: regular rules; irregular forms come from the lexicon."""

VOWELS = frozenset("aeiou")
_SILENT_H = ("hour", "honest", "heir")
_CONSONANT_SOUND = ("uni", "use", "euro", "one", "once")
_SIBILANTS = ("s", "x", "z", "ch", "sh")

ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def _consonant_y(word: str) -> bool:
    return word.endswith("y") and len(word) > 1 and word[-2] not in VOWELS


def add_s(word: str) -> str:
    """`word` with the -s of the plural or of the third person: box -> boxes, city -> cities, day -> days."""
    if _consonant_y(word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(_SIBILANTS) else "s")


def third_person(verb: str) -> str:
    """Third person singular present of `verb`."""
    if verb == "have":
        return "has"
    return verb + "es" if verb.endswith("o") else add_s(verb)


def past_form(verb: str, doubled: bool = False) -> str:
    """Regular past of `verb`; `doubled`: the last consonant is doubled (planned)."""
    if verb.endswith("e"):
        return verb + "d"
    if _consonant_y(verb):
        return verb[:-1] + "ied"
    return verb + (verb[-1] if doubled else "") + "ed"


def ing_form(verb: str, doubled: bool = False) -> str:
    """The -ing form of `verb`; `doubled`: the last consonant is doubled (planning)."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    return verb + (verb[-1] if doubled else "") + "ing"


def comparative_forms(adjective: str, rule: str) -> tuple[str, str] | None:
    """Comparative and superlative of `adjective`, or None where English says 'more' and 'most'.

    Args:
        adjective: the positive form.
        rule: 'er' regular, 'd' with doubled consonant, 'better,best' the forms themselves, else no synthetic forms.
    """
    if "," in rule:
        comparative, superlative = rule.split(",")
        return comparative, superlative
    if rule not in ("er", "d"):
        return None
    stem = adjective
    if rule == "d":
        stem = adjective + adjective[-1]
    elif _consonant_y(adjective):
        stem = adjective[:-1] + "i"
    elif adjective.endswith("e"):
        stem = adjective[:-1]
    return stem + "er", stem + "est"


def article(word: str) -> str:
    """The indefinite article before `word`: 'an' before a vowel sound."""
    lower = word.lower()
    if lower.startswith(_SILENT_H):
        return "an"
    if lower.startswith(_CONSONANT_SOUND):
        return "a"
    return "an" if lower[0] in VOWELS else "a"


def be(past: bool, person: int, plural: bool) -> str:
    """The form of 'be' in the present or past for a subject of `person` (1-3)."""
    if plural or person == 2:
        return "were" if past else "are"
    if past:
        return "was"
    return "am" if person == 1 else "is"
