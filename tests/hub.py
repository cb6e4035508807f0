"""A stand-in for the Hugging Face hub: as much of its HTTP API as fetching and pushing a model takes."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]


class Hub(ThreadingHTTPServer):
    """Repositories in memory: of each its commits, oldest first; ``main`` is the last."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.commits: dict[str, list[tuple[str, Files]]] = {}
        self.private: dict[str, bool] = {}
        self.gated: set[str] = set()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def commit(self, repository: str, files: Files) -> str:
        history = self.commits.setdefault(repository, [])
        oid = hashlib.sha1(f"{repository} {len(history)}".encode()).hexdigest()
        history.append((oid, files))
        return oid

    def at(self, repository: str, revision: str) -> tuple[str, Files] | None:
        history = self.commits[repository]
        return history[-1] if revision == "main" else next((c for c in history if c[0] == revision), None)


@contextmanager
def running() -> Iterator[Hub]:
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._get()

    def do_GET(self) -> None:
        self._get()

    def _get(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(path)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path):
            if (at := self._at(found[1], found[3] or "main")) is not None:
                oid, files = at
                listed = [{"rfilename": name} for name in files]
                info = {"id": found[1], "sha": oid, "private": self.server.private.get(found[1]), "siblings": listed}
                tree = [{"type": "file", "path": n, "size": len(c), "oid": _etag(c)} for n, c in files.items()]
                self._json(tree if found[2] == "tree" else info)
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            if (at := self._at(found[1], found[2])) is not None:
                if found[1] in self.server.gated:
                    self._error(403, "GatedRepo")
                elif found[3] not in at[1]:
                    self._error(404, "EntryNotFound")
                else:
                    self._send(200, at[1][found[3]], {"X-Repo-Commit": at[0], "ETag": f'"{_etag(at[1][found[3]])}"'})
        else:
            self._json({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        self.server.asked.append(path)
        if path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['organization']}/{wanted['name']}"
            self.server.commit(name, {".gitattributes": b""})
            self.server.private[name] = wanted.get("private", wanted.get("visibility") == "private")
            self._json({"url": f"{self.server.url}/{name}"})
        elif path.endswith("/preupload/main"):
            modes = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in json.loads(body)["files"]
            ]
            self._json({"files": modes})
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path):
            files = dict(self.server.commits[found[1]][-1][1])
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "deletedFile":
                    del files[value["path"]]
            oid = self.server.commit(found[1], files)
            self._json({"commitUrl": f"{self.server.url}/{found[1]}/commit/{oid}", "commitOid": oid})
        else:
            self._json({})

    def _at(self, repository: str, revision: str) -> tuple[str, Files] | None:
        """Return a commit, or answer that there is none."""
        if repository not in self.server.commits:
            self._error(404, "RepoNotFound")
            return None
        if (found := self.server.at(repository, revision)) is None:
            self._error(404, "RevisionNotFound")
        return found

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str) -> None:
        self._send(status, b"", {"X-Error-Code": code})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()
