"""The initialiser of a run, with its own section of parameters; blends of several."""

from typing import Any, get_args

from pydantic import Field, model_validator

from configs.sections.base import Config
from configs.sections.initialisers import (
    METHOD_NEEDS,
    AlignInitConfig,
    ClpConfig,
    FocusConfig,
    Method,
    MethodConfig,
    Need,
    OfaConfig,
    SavaConfig,
    TransTokenizationConfig,
    WechselConfig,
)


class BlendPart(Config):
    """One initialiser of a blend."""

    method: Method = Field(description="The initialiser.")
    weight: float = Field(default=1.0, gt=0, description="Weight of its rows.")
    settings: dict[str, Any] = Field(default_factory=dict, description="What else its `mapping` section would hold.")

    def config(self, seed: int) -> "MappingConfig":
        """The configuration of this part alone."""
        return MappingConfig.model_validate({"seed": seed, **self.settings, "method": self.method})


class BlendConfig(MethodConfig):
    """A weighted mean of initialisers, row by row over those that cover the row."""

    parts: tuple[BlendPart, ...] = Field(
        default=(BlendPart(method="trans-tokenization"), BlendPart(method="mean")),
        min_length=1,
        description="The initialisers.",
    )

    @model_validator(mode="after")
    def _parts_can_be_read(self) -> "BlendConfig":
        if any(part.method == "blend" for part in self.parts):
            raise ValueError("mapping.blend.parts: a blend cannot hold a blend")
        for part in self.parts:
            part.config(seed=0)
        return self

    def needs(self, usual: tuple[Need, ...]) -> tuple[Need, ...]:
        """What any part needs."""
        return tuple(dict.fromkeys(need for part in self.parts for need in part.config(0).needs()))

    def merged_languages(self) -> tuple[str, ...]:
        """Those of all parts."""
        return tuple(sorted({code for part in self.parts for code in part.config(0).merged_languages()}))

    def files(self) -> dict[str, str]:
        """The files of all parts, names led by the part's number and a dot."""
        return {
            f"{number}.{name}": path
            for number, part in enumerate(self.parts)
            for name, path in part.config(0).files().items()
        }


ESTIMATES_SHARED: tuple[Method, ...] = ("random", "trans-tokenization", "wechsel", "blend")
"""The methods that do not keep the rows of shared tokens by themselves."""

METHODS_OF_SETTING: dict[str, tuple[Method, ...]] = {
    "smoothing": ("trans-tokenization",),
    "copy_shared": ESTIMATES_SHARED,
}
"""The settings of `MappingConfig` that only some methods read, beside the sections."""


class MappingConfig(Config):
    """How the rows of the new vocabulary are made from the old one (the initialiser)."""

    method: Method = Field(default="trans-tokenization", description="The initialiser.")
    smoothing: float = Field(
        default=1.0,
        ge=0,
        description="'trans-tokenization': count added to pairs that need no evidence (identical, digits).",
    )
    copy_shared: bool | None = Field(
        default=None,
        description="'random', 'trans-tokenization', 'wechsel', 'blend': tokens found in both vocabularies keep their "
        "rows instead of getting new ones. None: where the vocabulary is an expansion of the source's.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the random rows, and of what else an initialiser draws.")
    align: AlignInitConfig | None = Field(default=None, description="Parameters of 'align'.")
    clp: ClpConfig | None = Field(default=None, description="Parameters of 'clp'.")
    sava: SavaConfig | None = Field(default=None, description="Parameters of 'sava'.")
    trans_tokenization: TransTokenizationConfig | None = Field(
        default=None, description="Parameters of 'trans-tokenization'."
    )
    focus: FocusConfig | None = Field(default=None, description="Parameters of 'focus'.")
    wechsel: WechselConfig | None = Field(default=None, description="Parameters of 'wechsel'.")
    ofa: OfaConfig | None = Field(default=None, description="Parameters of 'ofa'.")
    blend: BlendConfig | None = Field(default=None, description="Parameters of 'blend'.")

    @model_validator(mode="before")
    @classmethod
    def _section_of_the_method(cls, data: Any) -> Any:
        """The method's own section is always there; one of another method is an error, unless it holds defaults."""
        if not isinstance(data, dict):
            return data
        own = str(data.get("method", "trans-tokenization")).replace("-", "_")
        sections = method_sections()
        kept = dict(data)
        for name, section in sections.items():
            value = data.get(name)
            if name == own or value is None:
                kept.update({} if name != own or value is not None else {name: {}})
            elif section.holds_defaults(value):
                kept[name] = None  # a recipe's values laid under another method
            else:
                raise ValueError(
                    f"mapping.{name} holds parameters of {name!r}, but mapping.method is "
                    f"{data.get('method', 'trans-tokenization')!r}; remove mapping.{name} or change the method"
                )
        return kept

    @model_validator(mode="after")
    def _every_setting_is_read(self) -> "MappingConfig":
        for name, methods in METHODS_OF_SETTING.items():
            if self.method not in methods and getattr(self, name) != type(self).model_fields[name].default:
                readers = " and ".join(repr(method) for method in methods)
                raise ValueError(
                    f"mapping.{name} is read by {readers} alone, but mapping.method is {self.method!r}; take it out"
                )
        return self

    def section(self) -> MethodConfig | None:
        """The parameters of the method; None where it has none."""
        section = getattr(self, self.method.replace("-", "_"), None)
        return section if isinstance(section, MethodConfig) else None

    def needs(self) -> tuple[Need, ...]:
        """What the method reads beside the two tokenizers."""
        usual, section = METHOD_NEEDS.get(self.method, ()), self.section()
        return usual if section is None else section.needs(usual)

    def merged_languages(self) -> tuple[str, ...]:
        """The source languages whose counts the method reads one by one (inputs `counts.<code>`)."""
        section = self.section()
        return () if section is None else section.merged_languages()

    def languages(self, own: str) -> tuple[str, ...]:
        """The source languages whose parallel text the method reads, or what is counted on it.

        Args:
            own: the source language of the target language's `bitext`.
        """
        reads_own = not {"counts", "alignment", "bitext"}.isdisjoint(self.needs())
        return tuple(dict.fromkeys((*((own,) if reads_own else ()), *self.merged_languages())))

    def files(self) -> dict[str, str]:
        """The local files that the method reads: name -> path relative to the data root."""
        section = self.section()
        return {} if section is None else section.files()


def method_sections() -> dict[str, type[MethodConfig]]:
    """The sections of `MappingConfig` that hold one initialiser's parameters, by key."""
    kinds = {name: get_args(field.annotation) for name, field in MappingConfig.model_fields.items()}
    return {
        name: kind
        for name, parts in kinds.items()
        for kind in parts
        if isinstance(kind, type) and issubclass(kind, MethodConfig)
    }
