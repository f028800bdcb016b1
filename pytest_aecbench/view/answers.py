"""The addresses of the viewer: which answer each has, and what is refused."""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote_to_bytes

from pytest_aecbench.documents.encoding import encoded
from pytest_aecbench.errors import AecBenchError
from pytest_aecbench.ledger.store import EXPERIMENT_ID
from pytest_aecbench.reports.html.page import asset, render_served
from pytest_aecbench.view.access import PAGE_POLICY, RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

    from pytest_aecbench.view.access import Access
    from pytest_aecbench.view.content import Content

__all__ = ["MAX_TARGET_BYTES", "Answer", "Answers", "refusal"]

MAX_TARGET_BYTES = 8192
_MAX_COMPRESSED = 64 * 1024
_TRIAL_ID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PREFIX = "[0-9a-f][0-9a-f-]{7,35}"
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_JSON = "application/json"
_TYPES = {"app.js": "text/javascript", "view.js": "text/javascript", "style.css": "text/css"}
# The page is the same at every address of this kind; its script asks for what the address names.
_PAGES = re.compile(
    rf"/|/history|/e/{EXPERIMENT_ID}(/task/.+)?|/t/{_PREFIX}|/c/{EXPERIMENT_ID}/{EXPERIMENT_ID}"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its status, its body, and the headers that differ from those of all answers."""

    status: int
    body: bytes
    kind: str
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(error: RefusalError) -> Answer:
    """Return the answer to a request that is refused."""
    headers = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "GET, HEAD"}}
    body = _encoded({"problem": error.reason})
    return Answer(error.status, body, _JSON, headers.get(error.status, {}))


class Answers:
    """Answers requests for one ledger."""

    def __init__(self, content: Content, access: Access) -> None:
        self._content = content
        self._access = access

    def answer(self, method: str, target: str, headers: Message) -> Answer:
        """Return the answer to a request, also to one that is refused or broken."""
        try:
            path, query = self._checked(method, target, headers)
            if path.startswith("/api/"):
                return _compressed(self._data(path, query), headers)
            return _page(path)
        except RefusalError as error:
            return refusal(error)
        except AecBenchError as error:  # such as a ledger that is gone
            return refusal(RefusalError(503, str(error)))
        except (OSError, TimeoutError) as error:
            return refusal(RefusalError(503, error.strerror or "not available now"))

    def _checked(
        self, method: str, target: str, headers: Message
    ) -> tuple[str, dict[str, list[str]]]:
        path, _, query = target.partition("?")
        self._access.check(method, headers, is_data=path.startswith("/api"))
        if len(target) > MAX_TARGET_BYTES:
            raise RefusalError(414, "the address is too long")
        if not path.startswith("/") or _BAD_ESCAPE.search(path):
            raise _NOT_FOUND
        return path, parse_qs(query, max_num_fields=20)

    def _data(self, path: str, query: dict[str, list[str]]) -> Answer:
        what, *parts = [_decoded(part) for part in path.split("/")[2:]]
        content = self._content
        if what == "ping" and not parts:
            return _json({"ledger": str(content.settings.ledger_root)})
        if what == "experiments" and not parts:
            return _json(content.experiments())
        if what == "history" and not parts:
            return _json(content.history())
        if what == "find" and len(parts) == 1 and re.fullmatch(_PREFIX, parts[0]):
            return _json({"found": content.find(parts[0])})
        if what == "e" and len(parts) == 2:
            return self._of_experiment(parts[0], parts[1], query)
        if what == "t" and len(parts) in (2, 3):
            return self._of_trial(parts, query)
        if what == "f" and len(parts) > 2:
            return self._of_file(parts, query)
        raise _NOT_FOUND

    def _of_experiment(self, name: str, what: str, query: dict[str, list[str]]) -> Answer:
        self._check_experiment(name)
        if what == "page":
            baseline = query.get("baseline", [None])[0]
            if baseline is not None:
                self._check_experiment(baseline)
            return _json(self._content.page(name, baseline))
        makers = {
            "columns": self._content.columns,
            "tasks": self._content.tasks,
            "changes": self._content.changes,
        }
        if what not in makers:
            raise _NOT_FOUND
        return _json(makers[what](name))

    def _of_trial(self, parts: list[str], query: dict[str, list[str]]) -> Answer:
        experiment, trial, *rest = parts
        self._check_trial(experiment, trial)
        if rest == ["trajectory"]:
            return _json(self._content.trajectory(experiment, trial, _offset(query)))
        found = self._content.trial(experiment, trial)
        if rest or found is None:
            raise _NOT_FOUND
        return _json(found)

    def _of_file(self, parts: list[str], query: dict[str, list[str]]) -> Answer:
        experiment, trial, *path = parts
        self._check_trial(experiment, trial)
        offset = _offset(query)
        try:
            found = self._content.file(experiment, trial, "/".join(path), offset)
        except OSError:
            raise _NOT_FOUND from None
        # Whatever the file is called and whatever is in it: text, and not a document.
        headers = {"Aec-Size": str(found.size)}
        return Answer(200, found.data, "text/plain; charset=utf-8", headers)

    def _check_experiment(self, name: str) -> None:
        if not re.fullmatch(EXPERIMENT_ID, name) or not self._content.has(name):
            raise _NOT_FOUND

    def _check_trial(self, experiment: str, trial: str) -> None:
        if not re.fullmatch(EXPERIMENT_ID, experiment) or not re.fullmatch(_TRIAL_ID, trial):
            raise _NOT_FOUND


_NOT_FOUND = RefusalError(404, "there is nothing at this address")


def _page(path: str) -> Answer:
    if path.startswith("/assets/"):
        name = path.removeprefix("/assets/")
        if name not in _TYPES:
            raise _NOT_FOUND
        return Answer(200, _asset(name), f"{_TYPES[name]}; charset=utf-8")
    status = 200 if _PAGES.fullmatch(path) else 404
    headers = {"Content-Security-Policy": PAGE_POLICY}
    return Answer(status, _shell(), "text/html; charset=utf-8", headers)


@cache
def _asset(name: str) -> bytes:
    if name == "view.js":
        return (files(__package__) / "assets" / name).read_bytes()
    return asset(name).encode()


@cache
def _shell() -> bytes:
    return render_served("aec-bench").encode()


def _decoded(part: str) -> str:
    """Return a part of a path as the name of a file, whose bytes may be anything."""
    name = os.fsdecode(unquote_to_bytes(part))
    if "/" in name or "\0" in name:
        raise _NOT_FOUND
    return name


def _offset(query: dict[str, list[str]]) -> int:
    text = query.get("from", ["0"])[0]
    if not re.fullmatch("[0-9]{1,18}", text):
        raise RefusalError(400, "from: a number of bytes is needed")
    return int(text)


def _json(data: object) -> Answer:
    return Answer(200, _encoded(data), _JSON)


def _encoded(data: object) -> bytes:
    return encoded(data, separators=(",", ":"))


def _compressed(answer: Answer, headers: Message) -> Answer:
    """Return a long answer in fewer bytes, because it may go through a tunnel."""
    if len(answer.body) < _MAX_COMPRESSED or "gzip" not in headers.get("Accept-Encoding", ""):
        return answer
    gzip = zlib.compressobj(1, zlib.DEFLATED, 31)
    body = gzip.compress(answer.body) + gzip.flush()
    more = {**answer.headers, "Content-Encoding": "gzip"}
    return Answer(answer.status, body, answer.kind, more)
