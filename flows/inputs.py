"""Data from outside the store: local files, folders of models, the Hugging Face hub. Found, checked and digested."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from configs.schema import BitextConfig, CorpusConfig, FileSource, HubModel, HubSource, LocalModel
from storage.external import digest_file_cached, digest_folder_cached
from tasks.contract import InputError
from tasks.pretrained import TEMPLATES, TOKENIZER_FILES, VOCABULARY_FILES, has_tokenizer, tokenizer_inputs

MODEL_FILES = ("config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json")
HUB_TOKENIZER_FILES = (*TOKENIZER_FILES, f"{TEMPLATES}/*.jinja", "config.json")
COMMIT_LENGTH = 40


@dataclass(frozen=True)
class External:
    """A file or folder from outside the store.

    Attributes:
        digest: sha256 of its content, or of repository and commit for the hub.
        locate: gives its local path, downloading it first where needed.
        description: what it is, for the plan.
    """

    digest: str
    locate: Callable[[], Path]
    description: str


@dataclass(frozen=True)
class SourceModel:
    """A source model from outside: the whole folder, and its tokenizer alone (so that alignments are shared)."""

    model: External
    tokenizer: External


def source_files(config: CorpusConfig, data_root: Path, index: Path) -> dict[str, External]:
    """The local files that a corpus reads, by the names that its stage expects.

    Args:
        config: the corpus or bitext.
        data_root: folder that relative paths start from.
        index: folder in which digests of files are remembered.

    Raises:
        InputError: a file is missing or is no file; all of them are named.
    """
    wanted: dict[str, str] = {}
    for source in config.sources:
        if isinstance(source, FileSource):
            wanted[source.name] = source.path
            if source.target_path is not None:
                wanted[f"{source.name}.target"] = source.target_path
    return local_files(wanted, data_root, index, "source {!r}")


def local_files(wanted: Mapping[str, str], data_root: Path, index: Path, what: str) -> dict[str, External]:
    """Local files below the data root, by name.

    Args:
        wanted: path of each, relative to the data root.
        data_root: folder that relative paths start from and that no path may leave.
        index: folder in which digests of files are remembered.
        what: what a file is, for errors, with `{!r}` for its name.

    Raises:
        InputError: a file is missing, is no file or lies elsewhere; all of them are named.
    """
    faults, files = [], {}
    for name, relative in wanted.items():
        path, said = data_root / relative, what.format(name)
        # By the names alone: a link inside the data root may lead anywhere, its owner has made it.
        if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(data_root)):
            faults.append(f"{said}: {relative} leads out of the data root {data_root}")
        elif path.is_dir():
            faults.append(f"{said}: {path} is a folder, a file is needed")
        elif not path.is_file():
            faults.append(f"{said}: there is no file {path}")
        else:
            files[name] = External(digest_file_cached(path, index), _known(path), str(path))
    if faults:
        hint = f"Data root: {data_root} (set it with --data-root or LANGADAPT_DATA_ROOT)."
        raise InputError("\n".join([*faults, hint]))
    return files


def _known(path: Path) -> Callable[[], Path]:
    return lambda: path


def pinned(config: CorpusConfig | BitextConfig) -> Any:
    """`config` with the revision of every hub data set resolved to a commit.

    Raises:
        InputError: the hub cannot be reached and the revision is not a commit.
    """
    sources = [
        source.model_copy(update={"revision": dataset_commit(source)}) if isinstance(source, HubSource) else source
        for source in config.sources
    ]
    return config.model_copy(update={"sources": tuple(sources)})


def dataset_commit(source: HubSource) -> str:
    """The commit of a hub data set's revision."""
    if _is_commit(source.revision):
        return source.revision
    from huggingface_hub import HfApi

    with _hub_errors(f"data set {source.dataset}@{source.revision}"):
        return str(HfApi().dataset_info(source.dataset, revision=source.revision).sha)


def _is_commit(revision: str) -> bool:
    return len(revision) == COMMIT_LENGTH and all(letter in "0123456789abcdef" for letter in revision)


@contextlib.contextmanager
def _hub_errors(what: str) -> Any:
    try:
        yield
    except Exception as error:  # huggingface_hub raises its own, requests', httpx's and OSError's
        raise InputError(
            f"cannot get {what} from the Hugging Face hub: {type(error).__name__}: {str(error).splitlines()[0]}. "
            "Check the name, the network and, for a gated repository, your token (huggingface-cli login)"
        ) from error


def model_folder(config: LocalModel, data_root: Path) -> Path:
    """Where a local model is; it may be missing."""
    path = Path(config.path)
    return path if path.is_absolute() else data_root / path


def local_model(config: LocalModel, data_root: Path, index: Path, what: str = "source model") -> SourceModel:
    """A source model in a folder, checked; `what` it is, for errors.

    Raises:
        InputError: the folder is missing, or has no config.json, no safetensors weights or no tokenizer.
    """
    folder = model_folder(config, data_root)
    if not folder.is_dir():
        raise InputError(f"{what} {config.name!r}: there is no folder {folder}")
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    faults = []
    if "config.json" not in names:
        faults.append("no config.json")
    if not any(name.endswith(".safetensors") for name in names):
        found = [name for name in names if name.endswith((".bin", ".pt", ".pth", ".ckpt"))]
        hint = f" (only {', '.join(found)}: convert it, pickled weights are not loaded)" if found else ""
        faults.append(f"no *.safetensors weights{hint}")
    if not any(name in VOCABULARY_FILES for name in names):
        faults.append(f"no tokenizer (one of {', '.join(VOCABULARY_FILES)})")
    faults += _unreadable(folder, names)
    if faults:
        raise InputError(f"{what} folder {folder}: " + "; ".join(faults))
    tokenizer = tokenizer_inputs(folder)
    weights = [name for name in names if any(fnmatch(name, pattern) for pattern in MODEL_FILES)]
    return SourceModel(
        model=_folder(folder, sorted({*weights, *tokenizer}), index, f"model folder {folder}"),
        tokenizer=_folder(folder, tokenizer, index, f"tokenizer of {folder}"),
    )


def helper_model(config: LocalModel | HubModel, data_root: Path, index: Path) -> SourceModel:
    """A helper model: a folder below the data root, or on the hub; checked like a source model.

    Raises:
        InputError: it is missing, lies elsewhere or lacks something.
    """
    if isinstance(config, HubModel):
        return hub_model(config)
    _below(config, data_root)
    return local_model(config, data_root, index, what="helper model")


def helper_tokenizer(config: LocalModel | HubModel, data_root: Path, index: Path) -> External:
    """The tokenizer of a helper model alone; its folder needs no weights.

    Raises:
        InputError: it is missing, lies elsewhere or has no tokenizer.
    """
    if isinstance(config, HubModel):
        return hub_model(config).tokenizer
    folder = _below(config, data_root)
    if not folder.is_dir():
        raise InputError(f"helper model {config.name!r}: there is no folder {folder}")
    if not has_tokenizer(folder):
        raise InputError(f"helper model folder {folder}: no tokenizer (one of {', '.join(VOCABULARY_FILES)})")
    return _folder(folder, tokenizer_inputs(folder), index, f"tokenizer of {folder}")


def _below(config: LocalModel, data_root: Path) -> Path:
    folder = data_root / config.path
    # By the names alone, as for files.
    if not Path(os.path.normpath(folder)).is_relative_to(os.path.normpath(data_root)):
        raise InputError(
            f"helper model {config.name!r}: {config.path} leads out of the data root {data_root} "
            "(set it with --data-root or LANGADAPT_DATA_ROOT)"
        )
    return folder


def _unreadable(folder: Path, names: Iterable[str]) -> list[str]:
    """What is wrong with the files themselves: cut weights (by their headers), a config.json that is no JSON object."""
    from safetensors import SafetensorError, safe_open

    faults = []
    for name in names:
        try:
            if name.endswith(".safetensors"):
                with safe_open(folder / name, framework="np"):
                    pass
            elif name == "config.json" and not isinstance(json.loads((folder / name).read_bytes()), dict):
                faults.append("config.json is no JSON object")
        except (SafetensorError, ValueError) as error:
            faults.append(f"{name} is damaged ({error})")
    return faults


def _folder(folder: Path, names: Iterable[str], index: Path, description: str) -> External:
    return External(digest_folder_cached(folder, index, names), _known(folder), description)


def hub_model(config: HubModel) -> SourceModel:
    """A source model on the hub; only its commit is looked up here, files are downloaded when a stage needs them.

    Raises:
        InputError: the hub cannot be reached and the commit is not known locally.
    """
    commit = config.revision if _is_commit(config.revision) else _model_commit(config)

    def external(part: str, patterns: tuple[str, ...]) -> External:
        digest = hashlib.sha256(f"hub:{config.repository}@{commit}:{part}".encode()).hexdigest()
        return External(
            digest, lambda: _download(config.repository, commit, patterns), f"{part} {config.repository}@{commit[:8]}"
        )

    return SourceModel(
        model=external("model", MODEL_FILES + HUB_TOKENIZER_FILES),
        tokenizer=external("tokenizer", HUB_TOKENIZER_FILES),
    )


def _model_commit(config: HubModel) -> str:
    from huggingface_hub import HfApi, snapshot_download

    what = f"model {config.repository}@{config.revision}"
    try:
        with _hub_errors(what):
            return str(HfApi().model_info(config.repository, revision=config.revision).sha)
    except InputError:
        # Not reachable: a snapshot downloaded earlier names its commit.
        with contextlib.suppress(Exception):
            folder = snapshot_download(
                config.repository, revision=config.revision, allow_patterns=["config.json"], local_files_only=True
            )
            return Path(folder).name
        raise


def _download(repository: str, commit: str, patterns: tuple[str, ...]) -> Path:
    from huggingface_hub import snapshot_download

    with _hub_errors(f"model {repository}@{commit}"):
        folder = Path(snapshot_download(repository, revision=commit, allow_patterns=list(patterns)))
    if not any((folder / name).is_file() for name in VOCABULARY_FILES):
        raise InputError(f"model {repository}@{commit} has no tokenizer (one of {', '.join(VOCABULARY_FILES)})")
    return folder
