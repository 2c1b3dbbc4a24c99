"""A model pushed to a repository of the Hugging Face hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from configs.faults import ConfigError
from flows.exported_model import CARD, ExportedModel, find_model, is_published
from storage.manifest import DamagedArtifact
from storage.store import Store

MAIN = "main"


class PushFailed(OSError):
    """The hub did not take the model."""


def push_model(model: ExportedModel, repository: str, *, private: bool, revision: str = MAIN) -> str:
    """Push `model` as one commit and return the commit's web page.

    The repository and the branch are made where they are not there. Weights and tokenizer files of an earlier push that
    the model does not have are removed from the branch, so that nobody loads a mixture; other files stay. The token is
    that of huggingface_hub (HF_TOKEN, or what `hf auth login` kept).

    Args:
        model: what is pushed.
        repository: 'owner/name'.
        private: a repository that is not there is made private; else as its owner's account says, mostly public.
        revision: the branch.

    Raises:
        ConfigError: there is no token.
        PushFailed: the hub cannot be reached or refuses; nothing or everything has been pushed.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token

    if get_token() is None:
        raise ConfigError("no token of the Hugging Face hub: set HF_TOKEN, or log in with 'hf auth login'")
    api = HfApi(library_name="langadapt")
    with _hub_errors(repository):
        api.create_repo(repository, private=private or None, exist_ok=True)
        if revision != MAIN:
            api.create_branch(repository, branch=revision, exist_ok=True)
        there = api.list_repo_files(repository, revision=revision)
        stale = [name for name in there if is_published(name) and name not in model.files]
        added = [CommitOperationAdd(CARD, model.card.encode())]
        added += [CommitOperationAdd(name, str(file.path)) for name, file in model.files.items()]
        _refuse_changed(model, added)
        commit = api.create_commit(
            repository,
            [*added, *(CommitOperationDelete(name) for name in stale)],
            commit_message=f"{model.node} of run {model.run_id}",
            revision=revision,
        )
    return str(commit.commit_url)


def push_finished(store: Store, run_id: str, repository: str) -> dict[str, str | None]:
    """Push the final model of a run that has just been completed; what went wrong is said, the run is not lost.

    Returns:
        repository, url (of the commit; None if it failed) and error (None if it did not; with what to do).
    """
    try:
        url = push_model(find_model(store, run_id), repository, private=True)
    except (ConfigError, DamagedArtifact, OSError) as error:
        again = f"langadapt push {run_id} {repository} --private"
        return {"repository": repository, "url": None, "error": f"{error}. The run is kept; to push again: {again}"}
    return {"repository": repository, "url": url, "error": None}


def _refuse_changed(model: ExportedModel, operations: list[Any]) -> None:
    """Nothing, if what is about to be pushed has the digests that the store keeps.

    Raises:
        DamagedArtifact: a file is not what the store has a record of.
    """
    for operation in operations:
        file = model.files.get(operation.path_in_repo)
        if file is not None and operation.upload_info.sha256.hex() != file.sha256:
            raise DamagedArtifact(f"{file.path} is not what the store has a record of; run its stage again")


@contextmanager
def _hub_errors(repository: str) -> Iterator[None]:
    """Puts every error of the hub into one that says what to do."""
    try:
        yield
    except DamagedArtifact:
        raise
    except Exception as error:  # huggingface_hub raises its own, requests', httpx's, and others around them
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PushFailed(
            f"{repository} on the Hugging Face hub: {reason}. Check the name, the network, and that your token may "
            "write there"
        ) from error
