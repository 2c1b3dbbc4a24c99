"""`langadapt push`: what huggingface_hub really sends, to a hub on this machine."""

import base64
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

from flows import cli
from flows.exported_model import find_model
from flows.hub_push import push_finished

TOKEN = "hf_" + "t" * 34
LARGE = (".safetensors", ".model")
COMMIT = "c" * 40


class FakeHub:
    """A small stand-in for the hub: what huggingface_hub asks for when a commit is pushed, and no more.

    Attributes:
        repositories: {'owner/name': {'private': bool, 'branches': {branch: {path: bytes}}}}.
        objects: large files by digest.
        commits: (repository, branch, message) of each commit.
        requests: method and path of each request.
        fails_at: a request whose path holds this text is answered with an error.
    """

    def __init__(self):
        self.repositories, self.objects, self.commits, self.requests = {}, {}, [], []
        self.fails_at = None
        self.url = ""

    def files(self, repository, branch="main"):
        return self.repositories[repository]["branches"][branch]

    def answer(self, method, path, body, authorised):
        """Status and JSON for a request."""
        self.requests.append((method, path))
        if path.startswith("/objects/") and method == "PUT":  # a signed address: no token is sent
            self.objects[path.removeprefix("/objects/")] = body
            return 200, {}
        if not authorised:
            return 401, {"error": "Invalid username or password."}
        if self.fails_at is not None and self.fails_at in path:
            return 403, {"error": "You don't have the rights to do this."}
        for pattern, answer in self.ROUTES:
            match = re.fullmatch(pattern, path)
            if match:
                return answer(self, *map(unquote, match.groups()), body)
        return 404, {"error": f"the fake hub knows no {method} {path}"}

    def create(self, body):
        wanted = json.loads(body)
        name = f"{wanted['organization']}/{wanted['name']}"
        if name in self.repositories:
            return 409, {"error": "You already created this model repo", "url": f"{self.url}/{name}"}
        self.repositories[name] = {"private": wanted.get("private"), "branches": {"main": {}}}
        return 200, {"url": f"{self.url}/{name}"}

    def branch(self, repository, branch, body):
        branches = self.repositories[repository]["branches"]
        if branch in branches:
            return 409, {"error": "Reference already exists"}
        branches[branch] = dict(branches["main"])
        return 200, {}

    def tree(self, repository, branch, body):
        files = self.files(repository, branch)
        return 200, [{"type": "file", "path": name, "size": len(data), "oid": "0"} for name, data in files.items()]

    def validate(self, body):
        text = json.loads(body)["content"]
        return (
            (200, {"errors": [], "warnings": []}) if text.startswith("---\n") else (400, {"errors": [], "warnings": []})
        )

    def preupload(self, repository, branch, body):
        modes = [
            {"path": file["path"], "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular",
             "shouldIgnore": False}
            for file in json.loads(body)["files"]
        ]  # fmt: skip
        return 200, {"files": modes}

    def batch(self, repository, body):
        found = [
            {"oid": item["oid"], "size": item["size"],
             "actions": {"upload": {"href": f"{self.url}/objects/{item['oid']}"}}}
            for item in json.loads(body)["objects"]
        ]  # fmt: skip
        return 200, {"transfer": "basic", "objects": found}

    def commit(self, repository, branch, body):
        files = self.files(repository, branch)
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                self.commits.append((repository, branch, value["summary"]))
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        return 200, {"commitUrl": f"{self.url}/{repository}/commit/{COMMIT}", "commitOid": COMMIT}

    REPOSITORY = r"([^/]+/[^/]+)"
    ROUTES = (
        (r"/api/repos/create", create),
        (r"/api/validate-yaml", validate),
        (rf"/api/models/{REPOSITORY}/branch/([^/]+)", branch),
        (rf"/api/models/{REPOSITORY}/tree/([^/]+)", tree),
        (rf"/api/models/{REPOSITORY}/preupload/([^/]+)", preupload),
        (rf"/api/models/{REPOSITORY}/commit/([^/]+)", commit),
        (rf"/{REPOSITORY}\.git/info/lfs/objects/batch", batch),
    )


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The hub on a free port of this machine, a token for it, and huggingface_hub told of both."""
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            authorised = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            status, found = hub.answer(self.command, urlsplit(self.path).path, body, authorised)
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = handle_request

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no token"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


def expected(trained, phase=None):
    """Name and content of each file that is to be pushed."""
    model = find_model(*trained, phase)
    return {"README.md": model.card.encode(), **{name: file.path.read_bytes() for name, file in model.files.items()}}


def test_the_command_pushes_model_tokenizer_and_card(trained, hub, tmp_path):
    """A process of its own, which is told of the hub by HF_ENDPOINT alone."""
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-m", "flows.cli", "push", "eo", "me/model", "--private", "--json"]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["url"] == f"{hub.url}/me/model/commit/{COMMIT}"
    assert result["node"] == "training.2"
    assert hub.files("me/model") == expected(trained)
    assert hub.repositories["me/model"]["private"] is True
    assert hub.commits == [("me/model", "main", f"training.2 of run {trained[1]}")]
    assert set(hub.objects) == {find_model(*trained).files["model.safetensors"].sha256}
    assert TOKEN not in done.stdout + done.stderr


def test_a_second_push_replaces_the_first_and_removes_weights_that_are_gone(trained, hub, call):
    assert call("push", "eo", "me/model", "--phase", "1")[0] == 0
    assert hub.repositories["me/model"]["private"] is None  # as the owner's account says
    others = {"examples.txt": b"mine", "onnx/model.safetensors": b"mine", "onnx/config.json": b"mine"}
    hub.files("me/model").update({"model-00001-of-00002.safetensors": b"old", "merges.txt": b"old", **others})
    assert call("push", "eo", "me/model")[0] == 0
    assert hub.files("me/model") == {**expected(trained), **others}


def test_a_branch_is_made_where_it_is_not_there(trained, hub, call):
    assert call("push", "eo", "me/model", "--phase", "1")[0] == 0
    for _ in range(2):
        assert call("push", "eo", "me/model", "--revision", "longer")[0] == 0
    assert hub.files("me/model") == expected(trained, 1)
    assert hub.files("me/model", "longer") == expected(trained)


@pytest.mark.parametrize("where", ["repos/create", "preupload", "objects/batch", "/commit/"])
def test_a_refusal_is_one_message_and_nothing_is_committed(trained, hub, call, where):
    hub.fails_at = where
    code, _, error = call("push", "eo", "me/model")
    assert code == cli.EXIT_FAILED
    assert "me/model on the Hugging Face hub" in error
    assert "your token may write there" in error
    assert TOKEN not in error
    assert "Traceback" not in error
    assert hub.commits == []


def test_a_wrong_token_is_one_message(trained, hub, call, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_" + "w" * 34)
    code, _, error = call("push", "eo", "me/model")
    assert code == cli.EXIT_FAILED
    assert "hf_www" not in error


def test_without_a_token_nothing_is_sent(trained, hub, call, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    code, _, error = call("push", "eo", "me/model")
    assert code == cli.EXIT_INPUT
    assert "HF_TOKEN" in error
    assert hub.requests == []


@pytest.mark.parametrize("name", ["model", "a/b/c", "https://hub/me/model", "me/"])
def test_a_name_without_an_owner_is_refused(trained, hub, call, name):
    code, _, error = call("push", "eo", name)
    assert code == cli.EXIT_INPUT
    assert "owner/name" in error
    assert hub.requests == []


def test_a_changed_file_is_not_pushed(trained, hub, call, monkeypatch):
    weights = find_model(*trained).files["model.safetensors"].path
    find = find_model

    def then_changed(*arguments):
        found = find(*arguments)
        weights.chmod(0o644)
        weights.write_bytes(b"other")
        return found

    monkeypatch.setattr("flows.exported_model.find_model", then_changed)
    code, _, error = call("push", "eo", "me/model")
    assert code == cli.EXIT_FAILED
    assert "is not what the store has a record of" in error
    assert hub.objects == {}
    assert hub.commits == []


def test_a_finished_run_is_pushed_to_a_private_repository(trained, hub):
    pushed = push_finished(*trained, "me/model")
    assert pushed == {"repository": "me/model", "url": f"{hub.url}/me/model/commit/{COMMIT}", "error": None}
    assert hub.repositories["me/model"]["private"] is True
    assert hub.files("me/model") == expected(trained)


def test_a_failed_push_does_not_lose_the_run_and_says_how_to_push_again(trained, hub):
    hub.fails_at = "/commit/"
    pushed = push_finished(*trained, "me/model")
    assert pushed["url"] is None
    assert f"langadapt push {trained[1]} me/model --private" in pushed["error"]
    hub.fails_at = None
    assert push_finished(*trained, "me/model")["error"] is None
