"""The functions that a model has in its REPL, beside Python."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .log import SubcallLog
from .typed import make_typed
from .values import MOST_CALLS, ParallelError, Shown, SubcallError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .report import Report
    from .worker import Worker

Message = Any


class Calls:
    """Calls to models, which the host makes."""

    def __init__(self, worker: Worker, config: Message) -> None:
        self._worker = worker
        self._directory = worker.directory
        self._children = 0
        self._lock = threading.Lock()
        self.log = SubcallLog()

    def ask(self, kind: str, prompt: str, **more: Any) -> Message:
        """Return the reply to one prompt, with its tokens; raise if there is none."""
        (reply,) = self._call([self._request(kind, prompt, more)])
        if reply.get("error"):
            raise self.error(reply)
        return reply

    def llm_query(self, prompt: str, model: str | None = None) -> str:
        """Ask a model, which sees nothing but the prompt; return its answer."""
        text: str = self.ask("llm_query", prompt, model=model)["text"]
        return text

    def llm_query_batched(self, prompts: Iterable[str], model: str | None = None) -> list[Any]:
        """Ask a model many things at once; return the answers in the same order.

        An item that failed is a SubcallError, the others are strings.
        """
        requests = [self._request("llm_query", prompt, {"model": model}) for prompt in prompts]
        return self._many(requests)

    def rlm_query(self, question: str, model: str | None = None, **variables: Any) -> str:
        """Let a model work on a question in a REPL of its own, with these variables."""
        request = self._child(question, model, variables)
        (answer,) = self._many([request])
        if isinstance(answer, BaseException):
            raise answer
        text: str = answer
        return text

    def rlm_query_batched(
        self, questions: Iterable[str], model: str | None = None, **variables: Any
    ) -> list[Any]:
        """Let models work on questions at once, each in a REPL of its own."""
        return self._many([self._child(question, model, variables) for question in questions])

    def advisor(self, goal: str = "", problem: str = "", attempt: str = "") -> str:
        """Ask the advisor: what you want, what is in the way, what you have tried."""
        parts = (("Goal", goal), ("Problem", problem), ("Tried", attempt))
        question = "\n".join(f"{name}: {text}" for name, text in parts if text)
        return Shown(self.ask("advisor", question or "What should I do next?")["text"])

    def error(self, reply: Message) -> Exception:
        """Return the exception of a reply that is none."""
        return SubcallError(reply["error"])

    def _many(self, requests: list[Message]) -> list[Any]:
        if not requests:
            return []
        replies = self._call(requests)
        return [self.error(one) if one.get("error") else one["text"] for one in replies]

    def _call(self, requests: list[Message]) -> list[Message]:
        if len(requests) > MOST_CALLS:
            raise ValueError(f"{len(requests):,} prompts at once are too many; give {MOST_CALLS:,}")
        replies = self._worker.call(requests)
        self.log.add(requests, replies)
        return replies

    def _request(self, kind: str, prompt: str, more: Message) -> Message:
        if not isinstance(prompt, str):
            raise TypeError(f"a prompt is a string, not {type(prompt).__name__}")
        given = {name: value for name, value in more.items() if value is not None}
        return dict(given, kind=kind, prompt=prompt)

    def _child(self, question: str, model: str | None, variables: Message) -> Message:
        """Return the request for a child; its variables stay in the sandbox, in a file."""
        if not variables:
            return self._request("rlm_query", question, {"model": model})
        with self._lock:
            self._children += 1
            path = f"{self._directory}/child-{self._children}.json"
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(variables, file, default=str)
        more = {"model": model, "handed_over": path, "names": sorted(variables)}
        return self._request("rlm_query", question, more)


def grep(text: str, pattern: str, context: int = 3) -> str:
    """Return the lines of a text that match a pattern, numbered, with the lines around them."""
    wanted = re.compile(pattern, re.IGNORECASE)
    lines = str(text).splitlines()
    found = [number for number, line in enumerate(lines) if wanted.search(line)]
    shown: list[str] = []
    last = -1
    for number in found:
        first = max(number - context, last + 1)
        if shown and first > last + 1:
            shown.append("--")
        for near in range(first, min(number + context + 1, len(lines))):
            mark = ":" if wanted.search(lines[near]) else "-"
            shown.append(f"{near + 1}{mark} {lines[near]}")
            last = near
    return Shown("\n".join(shown) or "(no line matches)")


def parallel(calls: Iterable[Callable[[], Any]], max_workers: int | None = None) -> list[Any]:
    """Make calls in threads; return their values in order, a ParallelError where one raised."""
    listed = list(calls)
    if not listed:
        return []

    def attempt(index: int, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the result)
            return ParallelError(index, error)

    with ThreadPoolExecutor(max_workers or 8) as pool:
        return list(pool.map(attempt, range(len(listed)), listed))


def filler(report: Report) -> Callable[..., dict[str, Any]]:
    """Return the function that fills several sections of a report."""

    def fill_parallel(
        generator: Callable[[str], Any], section_ids: Iterable[str], max_workers: int | None = None
    ) -> dict[str, Any]:
        """Fill sections with what ``generator(section_id)`` returns, those at once that can be.

        Returns what FILL says by id, or a ParallelError.
        """
        left = list(dict.fromkeys(section_ids))
        order = {name: number for number, name in enumerate(left)}
        said: dict[str, Any] = {}
        while left:
            ready = [name for name in left if not report.needs(name).intersection(left)]
            tried = parallel([_filling(report, generator, name) for name in ready], max_workers)
            for name, outcome in zip(ready, tried):  # noqa: B905  (not in Python 3.8)
                if isinstance(outcome, ParallelError):
                    outcome = ParallelError(order[name], outcome.error)
                said[name] = outcome
            left = [name for name in left if name not in said]
        return said

    return fill_parallel


def _filling(report: Report, generator: Callable[[str], Any], section_id: str) -> Callable[[], str]:
    def fill() -> str:
        report.check_ready(section_id)  # before anything is spent on it
        return report.fill(section_id, generator(section_id))

    return fill


def make_helpers(worker: Worker, config: Message) -> dict[str, Any]:
    """Return the names that every cell finds, whatever the cell before did to them."""
    calls = Calls(worker, config)
    helpers: dict[str, Any] = {
        "llm_query": calls.llm_query,
        "llm_query_batched": calls.llm_query_batched,
        "rlm_query": calls.rlm_query,
        "rlm_query_batched": calls.rlm_query_batched,
        "SubcallError": SubcallError,
        "FINAL": worker.final,
        "FINAL_VAR": worker.final_var,
    }
    if config["scaffolding"]:
        helpers.update(
            grep=grep,
            parallel=parallel,
            ParallelError=ParallelError,
            NOTE=worker.notes.note,
            RECALL=worker.notes.recall,
            SUBCALL_LOG=calls.log,
        )
    if config["advisor"]:
        helpers["ADVISOR"] = calls.advisor
    report = worker.report
    if report is not None:
        helpers.update(FILL=report.fill, STATUS=report.status, SUBMIT=worker.submit)
        helpers["fill_parallel"] = filler(report)
    helpers.update(make_typed(calls, config, worker.directory, report))
    described: dict[str, str] = config["help"]

    def show_vars() -> str:
        """List your variables with their types and sizes."""
        listed = (f"{name}: {text}" for name, text in worker.described().items())
        return Shown("\n".join(listed) or "(no variables)")

    def show_help() -> str:
        """Show this list."""
        return Shown("\n".join("{}\n    {}".format(*item) for item in described.items()))

    helpers.update(SHOW_VARS=show_vars, HELP=show_help)
    return helpers
