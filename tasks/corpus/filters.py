"""Why a cleaned text or pair is rejected."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from configs.schema import BitextConfig, CorpusConfig
from tasks.corpus.clean import Cleaned
from tasks.corpus.code_points import Classes, class_table

REASONS = ("", "control-characters", "empty", "too-short", "too-long", "no-letters", "wrong-script", "length-ratio")
_CODE = {reason: code for code, reason in enumerate(REASONS)}

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class SideRules:
    """What one side must satisfy.

    Attributes:
        classes: table of `class_table` for the side's scripts.
        check_script: whether the share of letters in the scripts is looked at.
        min_script_share: least share of wanted letters among the letters.
        min_characters: shortest text, in code points.
        max_characters: longest text, in code points.
    """

    classes: Classes
    check_script: bool
    min_script_share: float
    min_characters: int
    max_characters: int


def side_rules(config: CorpusConfig) -> list[SideRules]:
    """The rules of every text column: one for monolingual text; source, then target, for parallel text.

    Raises:
        InputError: a script is not one of Unicode's.
    """
    scripts = [config.scripts]
    if isinstance(config, BitextConfig):
        scripts.insert(0, config.source_scripts)
    return [
        SideRules(
            class_table(names), bool(names), config.min_script_share, config.min_characters, config.max_characters
        )
        for names in scripts
    ]


def side_codes(cleaned: Cleaned, rules: SideRules) -> Codes:
    """Code (index into `REASONS`) of the first rule that every text breaks, int8 [n]; 0 where it breaks none.

    With a script check, a text without any letter is 'no-letters': its share is not defined. Without one it is kept.
    """
    size = cleaned.characters
    checks = [
        ("control-characters", cleaned.has_nul),
        ("empty", size == 0),
        ("too-short", size < rules.min_characters),
        ("too-long", size > rules.max_characters),
    ]
    if rules.check_script:
        too_few = cleaned.wanted_letters < rules.min_script_share * cleaned.letters
        checks += [("no-letters", cleaned.letters == 0), ("wrong-script", too_few)]
    return np.select([found for _, found in checks], [np.int8(_CODE[name]) for name, _ in checks], np.int8(0))


def pair_codes(sides: Sequence[Cleaned], codes: Sequence[Codes], max_length_ratio: float) -> Codes:
    """Code of the first rule that a pair breaks: the source's, else the target's, else the ratio of lengths."""
    source, target = (side.characters for side in sides)
    unequal = np.maximum(source, target) > max_length_ratio * np.minimum(source, target)
    ratio = np.where(unequal, np.int8(_CODE["length-ratio"]), np.int8(0))
    first = np.where(codes[0] != 0, codes[0], codes[1])
    return np.where(first != 0, first, ratio).astype(np.int8)
