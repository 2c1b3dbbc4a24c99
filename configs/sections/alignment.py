"""Word alignment of parallel text, and its counts."""

from typing import Literal

from pydantic import Field

from configs.sections.base import NOT_IN_KEY, Config

Aligner = Literal["builtin", "builtin-plus", "fast_align", "eflomal", "dictionary"]
Symmetrization = Literal[
    "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and", "forward", "reverse"
]


class AlignmentConfig(Config):
    """Word alignment of the parallel text, and how its counts are made."""

    aligner: Aligner = Field(
        default="builtin",
        description="'builtin' and 'builtin-plus' are this package's own; 'fast_align' and 'eflomal' run those "
        "programs; 'dictionary' links the words that the word list `dictionary` translates.",
    )
    model: Literal["diagonal", "model1"] = Field(
        default="diagonal", description="Dyer et al. 2013 (diagonal prior), or plain IBM Model 1."
    )
    unit: Literal["words", "tokens"] = Field(
        default="words", description="Align words rebuilt from tokens, or tokens (ideographic scripts)."
    )
    iterations: int = Field(default=5, ge=1, le=100, description="EM iterations.")
    variational_bayes: bool = Field(default=False, description="Dirichlet prior on the translation table.")
    alpha: float = Field(default=0.01, gt=0, description="Concentration of the Dirichlet prior.")
    p_null: float = Field(default=0.08, ge=0, lt=1, description="Probability that a word has no counterpart.")
    optimize_tension: bool = Field(default=True, description="Fit the diagonal prior's tension.")
    tension: float = Field(default=4.0, ge=1e-6, le=500, description="Initial tension of the diagonal prior.")
    lowercase: bool = Field(default=False, description="Align lower-cased words (counts are kept by cased token).")
    symmetrization: Symmetrization = Field(
        default="intersection", description="How the two directions' links are joined."
    )
    counts: Literal["expected", "links"] = Field(
        default="links",
        description="'expected': posterior counts (own aligners only); 'links': links of the symmetrised alignment.",
    )
    max_words: int = Field(
        default=200, ge=1, le=32767, description="Pairs with a longer side (in units) are left out and counted."
    )
    dictionary: str | None = Field(
        default=None,
        description="'dictionary': word list, one `source<TAB>target` entry a line, below the data root; plain, .gz or "
        ".zst. Its content is in the key, its path is not.",
        json_schema_extra=NOT_IN_KEY,
    )
    priors: str | None = Field(
        default=None,
        description="'eflomal': file of priors made by eflomal-makepriors, below the data root. Its content is in the "
        "key, its path is not.",
        json_schema_extra=NOT_IN_KEY,
    )
    memory_gib: float | None = Field(
        default=None,
        gt=0,
        description="Memory the aligner may use, in GiB; None: half of what the machine has.",
        json_schema_extra=NOT_IN_KEY,
    )
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 means all.", json_schema_extra=NOT_IN_KEY)


class CountsConfig(Config):
    """From counts of word pairs to counts of token pairs."""

    min_count: float = Field(default=10.0, ge=0, description="Word pairs with a smaller count are dropped.")
    direction: Literal["forward", "reverse", "mean"] = Field(
        default="forward",
        description="Which expected counts: of target given source, source given target, or their mean.",
    )
    corpus_weights: dict[str, float] = Field(
        default_factory=dict, description="Factor of each parallel corpus's counts, by its name; 1 where not named."
    )
