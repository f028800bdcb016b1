"""The prompts of ``rlm``, under a version that records name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.agents.prompts import joined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.rlm_config import RlmConfig
    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.tasks.task import Task

__all__ = [
    "CHILD",
    "COMPACTION",
    "IDLE",
    "RLM_VERSION",
    "SUBCALL",
    "asked_to_finish",
    "child_system",
    "helper_texts",
    "resumed",
    "root_system",
    "turns_left",
]

RLM_VERSION = "rlm-2"

_ROLE = """\
You solve an engineering task with a Python REPL in a Linux sandbox. There is no one to ask: \
decide for yourself, and state the assumptions that matter in your answer.

- Your one tool is `repl`, which runs a cell of Python. Its variables stay from one call to the \
next: they are your memory. The conversation may be shortened on the way; variables stay.
- You know nothing of the documents until your code has looked at them. Look before you answer: at \
sizes first, then at the beginning, then at what a search finds.
- You see what a cell prints and the value of its last expression, at most 10,000 characters of \
it: both ends. Print what you need, never a whole document.
- Use Python for searching, counting and arithmetic. It does not make mistakes there.
"""

_CALLS = """\
- Use `llm_query` for what needs reading. A model that you ask sees only the prompt: give it the \
question and the text. A prompt can hold about 100,000 characters. Ask few large questions, not \
many small ones, and ask those that do not depend on one another with `llm_query_batched`, about \
20 at a time.
"""
_CHILDREN = """\
- Use `rlm_query` for a part of the work that needs several steps: a model gets a REPL of its own, \
with the variables that you hand over by name.
"""
_FINAL = """\
- Finish in code: `FINAL(value)` writes the value to {output}, a text as it is and everything else \
as JSON. `FINAL_VAR("name")` does so with a variable. If your code has written that file itself, \
call `FINAL()`. The text of your replies is not graded.
"""
_SUBMIT = """\
- The answer is a report with sections. `STATUS()` lists them, `FILL(section_id, content)` fills \
one after those that it depends on, and `SUBMIT()` writes the report to {output} and finishes. The \
text of your replies is not graded.
"""
_CHILD_FINAL = """\
- Finish in code: `FINAL(value)` returns the value to the model that asked you. \
`FINAL_VAR("name")` does so with a variable. The text of your replies is not read.
"""

SUBCALL = (
    "You answer one question of a program. It reads your reply as it is: give the answer and "
    "nothing else, in the form that the question asks for. If the text that you are given has no "
    "answer, say so."
)
CHILD = "Work on this question, and return the answer with FINAL:\n\n"
COMPACTION = (
    "You keep the record of an agent that works on an engineering task in a Python REPL. Its "
    "conversation is about to be replaced by your summary. Write down what it needs to go on: the "
    "documents that it has read, the values that it has found and the variables that hold them, "
    "the work that is done, the work that is left, its approach, and what went wrong. Do not "
    "solve the task."
)
IDLE = "You called no tool. Go on with `repl`; when you have the answer, declare it there, in code."

_HELPERS = {
    "llm_query(prompt, model=None)": "ask a model, which sees only the prompt; returns its answer",
    "llm_query_batched(prompts)": (
        "ask many things at once; answers in the same order, a SubcallError where one failed"
    ),
}
_CHILD_HELPERS = {
    "rlm_query(question, **variables)": "have a model work in its own REPL; returns its answer",
    "rlm_query_batched(questions, **variables)": "several of them at once",
}
_SCAFFOLDING = {
    "grep(text, pattern, context=3)": "the lines that match, numbered, with lines around them",
    "parallel(callables)": "call functions in threads; values in order, or a ParallelError",
    "NOTE(key, value)": "keep a note, which outlives a restart of the REPL",
    "RECALL(key=None)": "read a note, or list them",
    "SUBCALL_LOG": "the calls so far: .all, .last(n), .by_type(kind); dicts with prompt and text",
}
_TEMPLATE = {
    "STATUS(section_id=None)": (
        "the sections of the report, their fields, and which can be filled now; with an id, what "
        "is in that section and in those that it depends on"
    ),
    "FILL(section_id, content)": "fill a section: a dict of its fields, or a text",
    "fill_parallel(generator, section_ids)": (
        "fill sections with what generator(section_id) returns, those at once that can be"
    ),
    "SUBMIT()": "write the report and finish",
}
_FINALS = {
    "FINAL(value)": "finish with this answer",
    'FINAL_VAR("name")': "finish with the value of a variable",
    "answer": 'a dict: set answer["content"] and then answer["ready"] = True to finish',
}
_ADVISOR = {"ADVISOR(goal=, problem=, attempt=)": "ask an experienced engineer; few questions"}
_ALWAYS = {
    "SHOW_VARS()": "your variables with types and sizes",
    "HELP()": "this list",
    "context": "the task, as text",
    "history": "the conversation before it was shortened, a list of dicts with role and content",
}
# Only a task with a template has sections.
_EXTRACT_FOR = "extract for a section"
_TYPED = {
    "extract": ("(text, fields=None, context=None)", "values of fields in a text: .values"),
    _EXTRACT_FOR: (
        "(text, fields=None, context=None, section=None)",
        "values of fields, or what a section of the report needs, in a text: .values",
    ),
    "calculate": ("(expression=, parameters=)", "a calculation by a model: .values"),
    "retrieve": (
        "(query=, source=None, max_results=5)",
        "what a model knows, or a source says: .results",
    ),
    "verify": (
        "(value=, criterion=, standard=None)",
        "a check: .passed, .confidence, .explanation",
    ),
    "summarise": ("(content=, focus=None, max_length=500)", "a summary: .summary"),
    "reason": (
        "(question=, context=None, options=None)",
        "a judgement: .conclusion, .confidence, .rationale",
    ),
    "review": (
        "(section_content=, writing_guidance=, extracted_data=None)",
        "a review: .status, .gaps, .risks",
    ),
}


def helper_texts(config: RlmConfig, depth: int) -> dict[str, str]:
    """Return the names that a REPL at some depth offers, each with what it does."""
    left = config.guardrails.max_subcall_depth - depth
    has_template = config.template.definition is not None and not depth
    texts: dict[str, str] = {}
    if left >= 1:
        texts |= _HELPERS
        for name, table in config.subcalls.items():
            if table.enabled:
                known = _EXTRACT_FOR if has_template and name == "extract" else name
                call, text = _TYPED.get(known, ("(...)", "a call of this task"))
                texts[f"{name}{call}"] = table.description or text
    texts |= _CHILD_HELPERS if left >= 2 else {}
    texts |= _SCAFFOLDING if config.execution.scaffolding else {}
    texts |= _ADVISOR if config.advisor and config.advisor.enabled and not depth else {}
    return texts | (_TEMPLATE if has_template else _FINALS) | _ALWAYS


def root_system(spec: AgentSpec, task: Task, config: RlmConfig, inputs: Mapping[str, str]) -> str:
    """Return the system prompt of the root model; ``inputs`` have their types and sizes."""
    final = _SUBMIT if config.template.definition is not None else _FINAL
    rules = [
        _rules(config, 0) + final.format(output=task.output_path),
        f"The working directory is {task.workdir}. In the REPL there are:\n\n"
        + _listed(helper_texts(config, 0)),
    ]
    if inputs:
        texts = {
            f"{name}: {text}": config.inputs[name].description for name, text in inputs.items()
        }
        rules.append(f"These documents are variables already:\n\n{_listed(texts)}")
    if config.hints.phases:
        rules.append(f"A suggested approach:\n\n{_bullets(config.hints.phases)}")
    if config.hints.prohibited:
        rules.append(f"You must not:\n\n{_bullets(config.hints.prohibited)}")
    return joined(spec, task, "\n\n".join(part.strip() for part in rules))


def child_system(config: RlmConfig, depth: int, inputs: Mapping[str, str]) -> str:
    """Return the system prompt of a model that another one asked."""
    rules = [
        _rules(config, depth) + _CHILD_FINAL,
        "In the REPL there are:\n\n" + _listed(helper_texts(config, depth)),
    ]
    if inputs:
        texts = {f"{name}: {text}": "" for name, text in inputs.items()}
        rules.append(f"These variables were handed over to you:\n\n{_listed(texts)}")
    return "\n\n".join(part.strip() for part in rules)


def _rules(config: RlmConfig, depth: int) -> str:
    left = config.guardrails.max_subcall_depth - depth
    return _ROLE + (_CALLS if left >= 1 else "") + (_CHILDREN if left >= 2 else "")


def resumed(summary: str, variables: Mapping[str, str], notes: tuple[str, ...]) -> str:
    """Return what a model is told after its conversation was replaced by a summary."""
    listed = _listed({f"{name}: {text}": "" for name, text in variables.items()})
    return (
        "\n\nThe conversation until now was replaced by this summary; `history` in the REPL has "
        f"all of it.\n\n{summary.strip()}\n\nVariables in the REPL:\n\n{listed or '(none)'}\n"
        + (f"\nNotes: {', '.join(notes)}\n" if notes else "")
        + "\nGo on with the task."
    )


def asked_to_finish(reason: str, *, has_template: bool) -> str:
    """Return the request for the last turn of a run that has reached a limit."""
    how = (
        "FILL what you can; the filled sections are written in any case"
        if has_template
        else "declare the best answer that you have with FINAL(...)"
    )
    return (
        f"The run is over: {reason}. This is your last turn: in one cell, {how}. Models can no "
        "longer be asked. If you call no tool, the text of your reply is taken for the answer."
    )


def turns_left(left: int) -> str:
    """Return the hint for the last turns."""
    if left == 1:
        return "this is your last turn: declare the answer now"
    return f"you have {left} turns left: come to an end"


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}" + (f" - {text}" if text else "") for name, text in texts.items())


def _bullets(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {text}" for text in texts)
