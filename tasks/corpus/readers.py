"""Which reader a source of the configuration has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.schema import FileSource, HubSource, SampleSource
from tasks.contract import InputError
from tasks.corpus.open_file import Location
from tasks.corpus.read_hub import read_hub
from tasks.corpus.read_jsonl import read_jsonl
from tasks.corpus.read_moses import read_moses
from tasks.corpus.read_parquet import read_parquet
from tasks.corpus.read_sample import read_sample
from tasks.corpus.read_tsv import read_tsv
from tasks.corpus.read_txt import read_txt
from tasks.corpus.records import Records


@dataclass(frozen=True)
class Folders:
    """Where the sources' data lie: files by name, artifact folders by name."""

    files: Mapping[str, Path]
    inputs: Mapping[str, Path]


def read(source: FileSource | HubSource | SampleSource, folders: Folders, names: Sequence[str]) -> Iterator[Records]:
    """The rows of a source, with one text column for each of `names` (one: monolingual, two: parallel).

    Raises:
        InputError: the source cannot be read, or does not hold that kind of text.
        OSError: a hub or the network failed.
    """
    if isinstance(source, SampleSource):
        return read_sample(source, folders.inputs[f"sample.{source.name}"], names)
    parallel = len(names) == 2
    if isinstance(source, HubSource):
        columns = [source.source_column, source.target_column] if parallel else [source.text_column]
        if not all(columns):
            raise InputError(f"source {source.name!r}: parallel text needs `source_column` and `target_column`")
        return read_hub(source, columns, names)
    return _read_file(source, folders.files, names)


def locations(source: FileSource, files: Mapping[str, Path]) -> list[Location]:
    """The one or two files of a source.

    Raises:
        InputError: a file is not there.
    """
    shown = {source.name: source.path}
    if source.target_path is not None:
        shown[f"{source.name}.target"] = source.target_path
    found = []
    for name, path in shown.items():
        if name not in files:
            raise InputError(
                f"source {source.name!r}: no file was given for {path!r}; "
                "set the data root with --data-root or LANGADAPT_DATA_ROOT"
            )
        found.append(Location(source.name, files[name], path))
    for location in found:
        location.require()
    return found


def _read_file(source: FileSource, files: Mapping[str, Path], names: Sequence[str]) -> Iterator[Records]:
    parallel = len(names) == 2
    columns = [source.source_column, source.target_column] if parallel else [source.text_column]
    found = locations(source, files)
    if source.format == "moses":
        if not parallel:
            raise found[0].error("format 'moses' is parallel text; monolingual text needs txt, jsonl, parquet or tsv")
        return read_moses(found[0], found[1], names)
    if source.format == "txt":
        if parallel:
            raise found[0].error("format 'txt' holds one text a line; parallel text needs tsv, jsonl, parquet or moses")
        return read_txt(found[0], names[0])
    if source.format == "tsv":
        return read_tsv(found[0], columns, names, source.header)
    if source.format == "jsonl":
        return read_jsonl(found[0], columns, names)
    return read_parquet(found[0], columns, names)
