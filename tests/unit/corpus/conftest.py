"""A stage run on files made on the spot."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from configs.schema import BitextConfig, CorpusConfig, FileSource
from tasks.contract import StageContext, StageResult, load_stage


@dataclass(frozen=True)
class Outcome:
    out: Path
    result: StageResult

    def rows(self, split: str) -> list[dict[str, Any]]:
        return pq.read_table(self.out / f"{split}.parquet").to_pylist()

    def texts(self, split: str = "train", column: str = "text") -> list[str]:
        return [row[column] for row in self.rows(split)]

    def all_texts(self) -> set[str]:
        return {text for split in ("train", "validation", "test") for text in self.texts(split)}

    def pairs(self, split: str = "train") -> list[tuple[str, str]]:
        return [(row["source"], row["target"]) for row in self.rows(split)]

    def rejected(self) -> dict[str, int]:
        return self.result.summary["rejected"]

    def examples(self, reason: str) -> list[tuple[int, str]]:
        rows = pq.read_table(self.out / "rejection_examples.parquet").to_pylist()
        return [(row["line"], row["example"]) for row in rows if row["reason"] == reason]


class Workbench:
    """Writes files under a data root and runs the two stages on them."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "data root"
        self.root.mkdir()
        self._folder = folder
        self._runs = 0

    def write(self, path: str, content: bytes | str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def source(self, path: str = "a.txt", name: str = "a", **options: Any) -> FileSource:
        options.setdefault("format", "moses" if "target_path" in options else Path(path).name.split(".")[1])
        return FileSource(name=name, path=path, **options)

    def corpus(self, *sources: Any, inputs: Mapping[str, Path] | None = None, **config: Any) -> Outcome:
        config = {"validation_share": 0.0, "test_share": 0.0, **config}
        return self._run("corpus", CorpusConfig(sources=sources, **config), inputs or {})

    def bitext(self, *sources: Any, inputs: Mapping[str, Path] | None = None, **config: Any) -> Outcome:
        config = {"validation_share": 0.0, "test_share": 0.0, **config}
        return self._run("bitext", BitextConfig(sources=sources, **config), inputs or {})

    def txt(self, content: bytes | str, **config: Any) -> Outcome:
        """The stage `corpus` on one text file."""
        self.write("a.txt", content)
        return self.corpus(self.source("a.txt"), **config)

    def _run(self, stage: str, config: CorpusConfig, inputs: Mapping[str, Path]) -> Outcome:
        self._runs += 1
        out, work = (self._folder / f"{name}{self._runs}" for name in ("out", "work"))
        out.mkdir()
        work.mkdir()
        files = {}
        for source in config.sources:
            if isinstance(source, FileSource):
                files[source.name] = self.root / source.path
                if source.target_path:
                    files[f"{source.name}.target"] = self.root / source.target_path
        return Outcome(out, load_stage(stage).run(StageContext(config, inputs, out, work, files)))


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


@pytest.fixture
def new_bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Workbench]:
    """A fresh workbench at every call, for property tests."""
    return lambda: Workbench(tmp_path_factory.mktemp("bench"))
