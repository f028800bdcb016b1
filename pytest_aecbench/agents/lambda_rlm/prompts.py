"""Prompts of the steps, under a version that records name.

Every call is told the task's instruction, in the system prompt, which is the same for all calls of
a trial. The first line of a message names its step.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_aecbench.agents.prompts import system_prompt
from pytest_aecbench.text import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_aecbench.agents.lambda_rlm.answers import Extraction, Review
    from pytest_aecbench.agents.report_template import ReportField, Section, Voice
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.providers import ToolSpec
    from pytest_aecbench.tasks.task import Task

__all__ = [
    "ADVISOR",
    "VERSION",
    "SectionPrompts",
    "repair_message",
    "system_message",
]

VERSION = "lambda-rlm-1"

_RULES = """\
You do one step of a larger piece of work: an engineering report, or an answer, that is written \
from sources. Each message asks for one step. Do that step and nothing else.

- State only what the sources or the given texts say. Do not invent values.
- Keep numbers, units, names and references exactly as they are.
- Where something that is asked for is not there, say that it is missing.
"""
ADVISOR = (
    "You advise on a section of an engineering report whose review has failed. You see what was "
    "found and what is missing. Answer briefly: how to write the section with what there is."
)
_MODES = {
    "transform": "Put what the sources say into the section's form.",
    "creative": "Write freely, on the basis of what the sources say.",
    "guided": "Follow the guidance closely.",
    "boilerplate": "Write standard text as the guidance says.",
    "external": "The section comes from elsewhere.",
}
_REVIEW = """\
Judge whether the section can be written from this. Look at completeness (each rule of the \
guidance and each field is covered), faithfulness (each value is supported by its quote), and \
agreement with the sections that it depends on. Where a source was probably read badly, ask for it \
to be read again, by its name. Where something can be derived from what there is, say what to \
supplement."""
_GENERATE = """\
Write the text of the section in Markdown, without a heading of its own title. Use only what is \
above. Where sources disagree, follow the one with the lower priority number, and say so. Write \
[TBD] where something is missing. Reply with the text and nothing else."""
_FLAT = """\
Write the whole content of the output file that the task asks for, in the form that it asks for. \
Use only what is above. Reply with that content and nothing else."""
_SUMMARY_CHARS = 500


def system_message(spec: AgentSpec, task: Task) -> str:
    """Return the system prompt: that of the agent, the rules, that of the task, the instruction."""
    return f"{system_prompt(spec, task, _RULES)}\n\n# The task\n\n{task.instruction.strip()}"


def repair_message(problem: str, tool: ToolSpec) -> str:
    """Return the one request to give an answer again."""
    return f"Your answer cannot be used: {problem}. Call `{tool.name}` once, with all of it."


class SectionPrompts:
    """The messages about one section; ``flat`` is for a task without a template."""

    def __init__(
        self, section: Section, voice: Voice, dependencies: Mapping[str, str], *, flat: bool
    ) -> None:
        self._section = section
        self._voice = voice
        self._dependencies = dependencies
        self._flat = flat

    def extract(
        self, source: str, part: tuple[int, int], text: str, missed: Sequence[str] = ()
    ) -> str:
        """Ask for the facts of a chunk; ``missed`` is what a review has found missing."""
        number, count = part
        where = f", part {number} of {count}" if count > 1 else ""
        return _joined(
            f"# extract: {self._section.id} from {source}{where}",
            "Find everything in this text that the section needs.",
            *self._about(_SUMMARY_CHARS),
            _list("An earlier reading missed", missed),
            f"## The text of {source}{where}\n\n{text}",
            "Call `give_facts`. Quote the words that support each fact.",
        )

    def reduce(
        self, source: str, level: int, group: tuple[int, int], found: Sequence[Extraction]
    ) -> str:
        """Ask for one extraction from those of neighbouring parts."""
        number, count = group
        parts = (
            f"## Part {position}\n\n{_json(one.to_json())}" for position, one in enumerate(found, 1)
        )
        return _joined(
            f"# reduce: {self._section.id} from {source}, level {level}, {number} of {count}",
            "These facts were found in parts of one source that follow one another. Join them: "
            "keep each fact that the section needs, once. Something that one part lacks and "
            "another has is not missing.",
            *self._about(0),
            *parts,
            "Call `give_facts`.",
        )

    def review(self, found: Mapping[str, Extraction]) -> str:
        """Ask whether what was found is enough."""
        return _joined(
            f"# review: {self._section.id}",
            *self._about(None),
            *self._found(found),
            _REVIEW,
            "Call `give_review`.",
        )

    def supplement(
        self, found: Mapping[str, Extraction], guidance: str, texts: Mapping[str, str]
    ) -> str:
        """Ask for what follows from what there is."""
        sources = (f"## The text of {name}\n\n{text}" for name, text in texts.items())
        return _joined(
            f"# supplement: {self._section.id}",
            f"A review asks for this: {guidance}",
            *self._about(None),
            *self._found(found),
            *sources,
            "Derive it, and give only what is new. Call `give_facts`.",
        )

    def advise(self, found: Mapping[str, Extraction], review: Review, said: Sequence[str]) -> str:
        """Ask the advisor."""
        return _joined(
            f"# advise: {self._section.id}",
            *self._about(None),
            *self._found(found),
            _list("Gaps", review.gaps),
            _list("Risks", review.risks),
            _list("The last replies", said),
        )

    def generate(
        self,
        found: Mapping[str, Extraction],
        gaps: Sequence[str],
        risks: Sequence[str],
        advice: str,
    ) -> str:
        """Ask for the text of the section."""
        return _joined(
            f"# generate: {self._section.id}",
            *self._about(None),
            *self._found(found),
            _list("Gaps", gaps),
            _list("Risks", risks),
            f"## Advice\n\n{advice}" if advice else "",
            _FLAT if self._flat else _GENERATE,
        )

    def _about(self, dependency_chars: int | None) -> Iterator[str]:
        """Yield what the section is; of dependencies all, or their beginnings."""
        section, voice = self._section, self._voice
        if not self._flat:
            yield from _named(("The report", voice.name), ("About it", voice.description))
            yield f"The section: {section.title}. {_MODES[section.generation_mode]}"
            yield from _named(
                ("Domain", voice.domain),
                ("Voice", voice.voice),
                ("Approach", voice.planning_guidance),
            )
        yield _list("Guidance", section.writing_guidance)
        yield _list("Fields", map(_field_line, section.fields))
        for title, text in self._dependencies.items():
            whole = text if dependency_chars is None else shortened(text, dependency_chars or 3)
            if dependency_chars != 0:
                yield f"## It depends on: {title}\n\n{whole}"

    def _found(self, found: Mapping[str, Extraction]) -> Iterator[str]:
        for name, extraction in found.items():
            rank = self._section.input_mapping.rank(name)
            priority = f", priority {rank}" if rank else ""
            yield f"## Found in {name}{priority}\n\n{_json(extraction.to_json())}"


def _field_line(field: ReportField) -> str:
    about = [field.dtype, field.unit, None if field.required else "optional"]
    if field.tolerance is not None:
        about.append(f"to within {field.tolerance:g} of its value")
    kind = ", ".join(part for part in about if part)
    return f"{field.name} ({kind}){f': {field.description}' if field.description else ''}"


def _named(*pairs: tuple[str, str | None]) -> Iterator[str]:
    yield from (f"{name}: {text}" for name, text in pairs if text)


def _list(title: str, texts: Iterable[str]) -> str:
    lines = "\n".join(f"- {text}" for text in texts)
    return f"{title}:\n{lines}" if lines else ""


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _json(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, indent=1)
