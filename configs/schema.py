"""The configuration of a run, as Pydantic models: frozen, unknown keys refused, units in the descriptions.

A run is *language x model x recipe* plus overrides. The three YAML files are read into `LanguageConfig`, `ModelConfig`
and a recipe tree; merged, they become one `RunConfig`, whose parts are handed to the stages. A stage's key is made
from exactly the part it reads, so a value that a stage does not read can change without running that stage again.

Fields marked with `NOT_IN_KEY` steer how a stage works (threads, memory, log intervals) and never what it answers;
`key_fields` leaves them out of the key.

Each section is a file of `configs.sections`; the names that other packages use are imported from here.
"""

from configs.sections.alignment import Aligner, AlignmentConfig, CountsConfig, Symmetrization
from configs.sections.base import (
    CODE_PATTERN,
    NAME_PATTERN,
    NOT_IN_KEY,
    REPOSITORY_PATTERN,
    Config,
    InputPath,
    RelativePath,
    Share,
    key_fields,
    valid_code,
)
from configs.sections.card import CardConfig, CardModel, CardSource
from configs.sections.evaluation import EvaluationConfig
from configs.sections.initial_model import EmbeddingsConfig, InitialModelConfig
from configs.sections.initialisers import (
    METHOD_NEEDS,
    AlignInitConfig,
    ClpConfig,
    FastTextConfig,
    FocusConfig,
    Method,
    MethodConfig,
    Need,
    OfaConfig,
    SavaConfig,
    TransTokenizationConfig,
    WechselConfig,
)
from configs.sections.mapping import METHODS_OF_SETTING, BlendConfig, BlendPart, MappingConfig, method_sections
from configs.sections.optimization import OptimizationConfig, Packing, Schedule
from configs.sections.pretraining import ArchitectureConfig, PretrainConfig
from configs.sections.report import ComparisonConfig, ReportConfig, ReportNode, Skipped
from configs.sections.run import Bitexts, LanguageConfig, Recipe, RunConfig
from configs.sections.source_model import BuiltModel, HelperModel, HubModel, LocalModel, ModelConfig
from configs.sections.text import (
    BitextConfig,
    Budget,
    CorpusConfig,
    FileSource,
    HubSource,
    SampleConfig,
    SampleSource,
    Source,
    Split,
)
from configs.sections.tokenizer import FertilityConfig, Strategy, TokenizerConfig, unused_settings
from configs.sections.training import Phase, PhaseConfig, Trainable, TrainingConfig
from configs.sections.training_parts import (
    AdapterConfig,
    LoraConfig,
    MixtureConfig,
    ProcessesConfig,
    ValidationConfig,
)

__all__ = [
    "CODE_PATTERN",
    "METHODS_OF_SETTING",
    "METHOD_NEEDS",
    "NAME_PATTERN",
    "NOT_IN_KEY",
    "REPOSITORY_PATTERN",
    "AdapterConfig",
    "AlignInitConfig",
    "Aligner",
    "AlignmentConfig",
    "ArchitectureConfig",
    "BitextConfig",
    "Bitexts",
    "BlendConfig",
    "BlendPart",
    "Budget",
    "BuiltModel",
    "CardConfig",
    "CardModel",
    "CardSource",
    "ClpConfig",
    "ComparisonConfig",
    "Config",
    "CorpusConfig",
    "CountsConfig",
    "EmbeddingsConfig",
    "EvaluationConfig",
    "FastTextConfig",
    "FertilityConfig",
    "FileSource",
    "FocusConfig",
    "HelperModel",
    "HubModel",
    "HubSource",
    "InitialModelConfig",
    "InputPath",
    "LanguageConfig",
    "LocalModel",
    "LoraConfig",
    "MappingConfig",
    "Method",
    "MethodConfig",
    "MixtureConfig",
    "ModelConfig",
    "Need",
    "OfaConfig",
    "OptimizationConfig",
    "Packing",
    "Phase",
    "PhaseConfig",
    "PretrainConfig",
    "ProcessesConfig",
    "Recipe",
    "RelativePath",
    "ReportConfig",
    "ReportNode",
    "RunConfig",
    "SampleConfig",
    "SampleSource",
    "SavaConfig",
    "Schedule",
    "Share",
    "Skipped",
    "Source",
    "Split",
    "Strategy",
    "Symmetrization",
    "TokenizerConfig",
    "Trainable",
    "TrainingConfig",
    "TransTokenizationConfig",
    "ValidationConfig",
    "WechselConfig",
    "key_fields",
    "method_sections",
    "unused_settings",
    "valid_code",
]
