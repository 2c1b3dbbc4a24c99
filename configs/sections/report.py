"""What a run's report and a comparison show."""

from pydantic import Field

from configs.sections.base import CODE_PATTERN, Config
from configs.sections.initial_model import EmbeddingsConfig


class ReportNode(Config):
    """One node of a run, as the report shows it."""

    node: str = Field(min_length=1, description="Id of the node in the plan, for instance 'evaluation.initial'.")
    stage: str = Field(min_length=1, description="Stage that made it, for instance 'evaluation'.")
    label: str = Field(default="", description="Heading of its table or column; empty: the node's id.")
    model: str = Field(default="", description="Evaluation: heading of the measured model's column; empty: made up.")


class ReportConfig(Config):
    """What a run's report says of the run, and the nodes it shows, in order."""

    title: str = Field(min_length=1, description="Heading of the report.")
    language: str = Field(pattern=CODE_PATTERN, description="BCP 47 code of the target language.")
    language_name: str = Field(default="", description="English name of the target language.")
    model: str = Field(default="", description="Name of the source model.")
    recipe: str = Field(default="", description="Name of the recipe.")
    paper: str = Field(default="", description="Where the recipe's values come from.")
    nodes: tuple[ReportNode, ...] = Field(default=(), description="The nodes shown, in the order of the run.")


class Skipped(Config):
    """An initialiser that a comparison leaves out."""

    initialiser: str = Field(description="Its name.")
    reason: str = Field(description="Why it cannot run.")


class ComparisonConfig(ReportConfig):
    """What a comparison of initialisers says, and the nodes it shows."""

    initialisers: tuple[str, ...] = Field(description="Names, in the order of the table.")
    skipped: tuple[Skipped, ...] = Field(default=(), description="Those that could not run.")
    embeddings: EmbeddingsConfig = Field(default=EmbeddingsConfig(), description="How two tables are compared.")
