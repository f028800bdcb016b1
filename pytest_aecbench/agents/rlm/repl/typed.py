"""Typed calls: prompts for common questions, and what their answers are read as."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from .report import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from .helpers import Calls
    from .report import Report

DATA_CHARS = 3000
# Of a section that another one depends on, a prompt has so much.
BEFORE_CHARS = 500
_FENCED = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
_JSON = "Reply with {} and nothing else."


class Result:
    """The answer to a typed call; ``error`` says why the other fields are empty."""

    def __init__(self, fields: dict[str, Any], reply: Any, error: str | None) -> None:
        self._fields = dict(fields, error=error)
        for name in ("input_tokens", "output_tokens"):
            self._fields[name] = reply.get(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._fields:
            known = ", ".join(sorted(self._fields))
            raise AttributeError(f"there is no field {name!r}; there are {known}")
        return self._fields[name]

    def __repr__(self) -> str:
        return "Result({})".format(
            ", ".join("{}={!r}".format(*item) for item in self._fields.items())
        )


class Typed:
    """The seven typed calls, each of which is a call to a model."""

    def __init__(self, calls: Calls, report: Report | None) -> None:
        self._calls = calls
        self._report = report

    def extract(
        self, text: str, fields: Any = None, *, context: Any = None, section: str | None = None
    ) -> Result:
        """Find the values of fields in a text: ``values``.

        With a section of the report, a model looks for what that section needs.
        """
        wanted = ", ".join(map(str, fields or ()))
        goal = self._goal(section) if section is not None else ()
        if goal and not wanted:
            what = "what the section of a report described below needs. Choose short names for it"
        else:
            what = wanted or "every value that an engineer would need"
        prompt = parts(
            f"Extract from the text below: {what}. Give values as they are written, with units, "
            "and null where the text has none.",
            _JSON.format("a JSON object with these names as keys"),
            *goal,
            ("Context", context),
            ("Text", text),
        )
        return self._json("extract", prompt, dict, lambda found: {"values": found})

    def _goal(self, section_id: str) -> tuple[Any, ...]:
        """Return what a prompt says of the section for which something is looked for."""
        if self._report is None:
            raise ValueError("extract: 'section' needs a task with a template; leave it out")
        section = self._report.section(section_id)
        before = {name: self._report.text(name)[:BEFORE_CHARS] for name in section["depends_on"]}
        return (
            ("Section", "{} ({})".format(section["title"], section["generation_mode"])),
            ("Its fields", ", ".join(map(describe, section["fields"])) or None),
            ("Its guidance", "\n".join(section["writing_guidance"]) or None),
            ("The sections before it", before or None),
        )

    def calculate(self, *, expression: str, parameters: Any, tool: Any = None) -> Result:
        """Let a model work out an expression: ``values``. Python is more reliable."""
        prompt = parts(
            "Work out the expression with the parameters. Show no steps.",
            _JSON.format("a JSON object of names and results"),
            ("Expression", expression),
            ("Parameters", parameters),
            ("Tool to follow", tool),
        )
        return self._json("calculate", prompt, dict, lambda found: {"values": found})

    def retrieve(self, *, query: str, source: Any = None, max_results: int = 5) -> Result:
        """Ask a model what it knows, or what a source says: ``results``. No corpus is searched."""
        shape = 'a JSON array of at most {} objects with "text", "source" and "relevance"'
        prompt = parts(
            "Name the passages that answer the query"
            + (", from the source below." if source else ", from memory."),
            _JSON.format(shape.format(int(max_results))),
            ("Query", query),
            ("Source", source),
        )
        return self._json(
            "retrieve", prompt, list, lambda found: {"results": found[: int(max_results)]}
        )

    def verify(self, *, value: Any, criterion: str, standard: Any = None) -> Result:
        """Check a value against a criterion: ``passed``, ``confidence``, ``explanation``."""
        prompt = parts(
            "Does the value meet the criterion?",
            _JSON.format('a JSON object with "passed", "confidence" (0 to 1) and "explanation"'),
            ("Value", value),
            ("Criterion", criterion),
            ("Standard", standard),
        )
        return self._json("verify", prompt, dict, picked("passed", "confidence", "explanation"))

    def summarise(self, *, content: Any, focus: Any = None, max_length: int = 500) -> Result:
        """Summarise a text or a list of them: ``summary``."""
        text = "\n\n".join(map(str, content)) if isinstance(content, (list, tuple)) else content
        prompt = parts(
            f"Summarise the text in at most {int(max_length)} characters; keep figures.",
            ("Focus", focus),
            ("Text", text),
        )
        reply = self._calls.ask("summarise", prompt)
        return Result({"summary": reply["text"].strip()}, reply, None)

    def reason(self, *, question: str, context: Any = None, options: Any = None) -> Result:
        """Weigh a question: ``conclusion``, ``confidence``, ``rationale``."""
        prompt = parts(
            "Answer the question.",
            _JSON.format('a JSON object with "conclusion", "confidence" (0 to 1) and "rationale"'),
            ("Question", question),
            ("Options", options),
            ("Context", context),
        )
        return self._json("reason", prompt, dict, picked("conclusion", "confidence", "rationale"))

    def review(
        self, *, section_content: Any, writing_guidance: Any, extracted_data: Any = None
    ) -> Result:
        """Review a section: ``status`` (pass or needs_work), ``gaps``, ``risks``."""
        data = None if extracted_data is None else shown(extracted_data)[:DATA_CHARS]
        prompt = parts(
            "Review the section against the guidance and the data.",
            _JSON.format(
                'a JSON object with "status" ("pass" or "needs_work"), "gaps" and "risks" (arrays)'
            ),
            ("Guidance", writing_guidance),
            ("Data", data),
            ("Section", section_content),
        )
        return self._json("review", prompt, dict, picked("status", "gaps", "risks"))

    def _json(
        self, kind: str, prompt: str, shape: type, fields: Callable[[Any], dict[str, Any]]
    ) -> Result:
        reply = self._calls.ask(kind, prompt)
        found, error = shape(), None
        try:
            read = json.loads(last_block(reply["text"]))
            if isinstance(read, shape):
                found = read
            else:
                error = "the answer is not a JSON {}: {:.200}".format(shape.__name__, reply["text"])
        except (ValueError, RecursionError):
            error = "the answer is not JSON: {:.200}".format(reply["text"])
        return Result(fields(found), reply, error)


def picked(*names: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that takes these keys of an object."""
    return lambda found: {name: found.get(name) for name in names}


def parts(*lines: Any) -> str:
    """Return a prompt of sentences and of named parts, which are left out if they are None."""
    texts = []
    for line in lines:
        if isinstance(line, str):
            texts.append(line)
        elif line[1] is not None:
            texts.append(f"{line[0]}:\n{shown(line[1])}")
    return "\n\n".join(texts)


def shown(value: Any) -> str:
    """Return a value as a prompt has it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def last_block(text: str) -> str:
    """Return the last fenced block of a text, else the text."""
    blocks = _FENCED.findall(text)
    return str(blocks[-1] if blocks else text)


def make_typed(calls: Calls, config: Any, directory: str, report: Report | None) -> dict[str, Any]:
    """Return the typed calls that the task switches on, its own ones among them."""
    typed = Typed(calls, report)
    made: dict[str, Any] = {}
    for one in config["subcalls"]:
        if one.get("file"):
            made[one["name"]] = custom(calls, one, directory)
        else:
            made[one["name"]] = getattr(typed, one["name"])
    return made


def custom(calls: Calls, one: Any, directory: str) -> Callable[..., Any]:
    """Return a function of the task's, which gets ``llm_query`` first."""
    path = "{}/{}".format(directory, one["file"])
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        source = file.read()
    names: dict[str, Any] = {"__name__": "aecbench_" + one["name"], "__file__": one["file"]}
    exec(compile(source, one["file"], "exec"), names)  # noqa: S102
    function = names[one["function"]]

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(calls.llm_query, *args, **kwargs)

    call.__name__ = one["name"]
    call.__doc__ = function.__doc__
    return call
