"""Trajectories in ATIF, as Harbor's viewers read them."""

from __future__ import annotations

import json
import math
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pytest_aecbench.agents.atif import ATIF_FILE, write_atif
from pytest_aecbench.agents.trajectory import FILE, HEADER, Entry, Role, Trajectory
from pytest_aecbench.errors import LedgerError
from pytest_aecbench.providers import ToolSpec
from tests.interpreters import find_python


def closed(required: list[str], **properties: object) -> dict[str, object]:
    """Return the schema of an object that has no other keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


TEXT, COUNT, OBJECT = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "object"}
COST = {"type": "number", "minimum": 0}
CALL = closed(
    ["tool_call_id", "function_name", "arguments"],
    tool_call_id={"type": "string", "minLength": 1},
    function_name=TEXT,
    arguments=OBJECT,
    extra=OBJECT,
)
RESULT = closed([], source_call_id=TEXT, content=TEXT, extra=OBJECT)
METRICS = closed(
    [],
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    cached_tokens=COUNT,
    cost_usd=COST,
    extra=OBJECT,
)
STEP: dict[str, object] = {
    **closed(
        ["step_id", "source", "message"],
        step_id={"type": "integer", "minimum": 1},
        timestamp={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d"},
        source={"enum": ["system", "user", "agent"]},
        model_name=TEXT,
        reasoning_effort=TEXT,
        message=TEXT,
        reasoning_content=TEXT,
        tool_calls={"type": "array", "items": CALL, "minItems": 1},
        observation=closed(["results"], results={"type": "array", "items": RESULT, "minItems": 1}),
        metrics=METRICS,
        llm_call_count=COUNT,
        extra=OBJECT,
    ),
    "allOf": [
        {
            "if": {"properties": {"source": {"enum": ["system", "user"]}}},
            "then": {
                "properties": dict.fromkeys(
                    (
                        "model_name",
                        "reasoning_effort",
                        "reasoning_content",
                        "tool_calls",
                        "metrics",
                    ),
                    False,
                )
            },
        },
        {
            "if": {"properties": {"llm_call_count": {"const": 0}}, "required": ["llm_call_count"]},
            "then": {"properties": {"metrics": False, "reasoning_content": False}},
        },
    ],
}
SCHEMA = Draft202012Validator(
    closed(
        ["schema_version", "agent", "steps"],
        schema_version={"const": "ATIF-v1.7"},
        session_id=TEXT,
        trajectory_id=TEXT,
        agent=closed(
            ["name", "version"],
            name=TEXT,
            version=TEXT,
            model_name=TEXT,
            tool_definitions={"type": "array", "items": OBJECT},
            extra=OBJECT,
        ),
        steps={"type": "array", "items": STEP, "minItems": 1},
        final_metrics=closed(
            [],
            total_prompt_tokens=COUNT,
            total_completion_tokens=COUNT,
            total_cached_tokens=COUNT,
            total_cost_usd=COST,
            total_steps=COUNT,
            extra=OBJECT,
        ),
    )
)

BASH = ToolSpec("bash", "Run a command", {"type": "object", "properties": {"command": TEXT}})


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def check(path: Path) -> Any:
    """Return the document, which keeps all rules of the format."""
    document = json.loads(path.read_bytes().decode(), parse_constant=no_constant)
    SCHEMA.validate(document)
    assert [step["step_id"] for step in document["steps"]] == [
        *range(1, len(document["steps"]) + 1)
    ]
    for step in document["steps"]:
        ids = [call["tool_call_id"] for call in step.get("tool_calls", ())]
        for result in step.get("observation", {"results": []})["results"]:
            assert result.get("source_call_id") in (None, *ids)
    return document


def converted(directory: Path, *entries: Entry) -> Any:
    """Return the document that these entries give, as they come from a file."""
    lines = (json.dumps(HEADER), *(json.dumps(entry.to_json()) for entry in entries))
    (directory / FILE).write_text("".join(f"{line}\n" for line in lines))
    assert write_atif(directory, "tool_loop", "1.2", "m", session_id="trial", tools=[BASH])
    return check(directory / ATIF_FILE)


REPLY = Entry(
    "assistant",
    "I look.",
    turn=1,
    duration_ms=2100,
    timestamp="2026-04-12T10:00:00.000+00:00",
    metadata={
        "model": "m-2026",
        "tokens_in": 100,
        "tokens_out": 20,
        "tokens_cache_read": 30,
        "tokens_cache_write": 5,
        "cost_usd": 0.25,
        "waited_sec": 1.5,
        "stop": "tool_calls",
        "reasoning": "The file first.",
    },
)
CALLS = [
    Entry("tool_call", call_id=name, tool_name="bash", arguments={"command": "ls"}, turn=1)
    for name in ("a", "b")
]
RESULTS = [
    Entry("tool_result", "x\n", call_id="b", tool_name="bash", exit_code=0, duration_ms=7),
    Entry("tool_result", call_id="a", tool_name="bash", stdout="out", stderr="err", exit_code=2),
]


def test_a_reply_with_its_calls_and_results_is_one_step(tmp_path: Path) -> None:
    document = converted(
        tmp_path, Entry("system", "Be brief."), Entry("user", "Do it."), REPLY, *CALLS, *RESULTS
    )
    assert document["session_id"] == document["trajectory_id"] == "trial"
    assert document["agent"] == {
        "name": "tool_loop",
        "version": "1.2",
        "model_name": "m",
        "tool_definitions": [
            {
                "type": "function",
                "function": {
                    "name": "bash",
                    "description": "Run a command",
                    "parameters": BASH.parameters,
                },
            }
        ],
    }
    system, user, step = document["steps"]
    assert (system["source"], system["message"]) == ("system", "Be brief.")
    assert (user["source"], user["message"]) == ("user", "Do it.")
    assert step == {
        "step_id": 3,
        "source": "agent",
        "timestamp": REPLY.timestamp,
        "message": "I look.",
        "model_name": "m-2026",
        "reasoning_content": "The file first.",
        "metrics": {
            "prompt_tokens": 135,
            "completion_tokens": 20,
            "cached_tokens": 30,
            "cost_usd": 0.25,
            "extra": {"cache_write_tokens": 5},
        },
        "llm_call_count": 1,
        "extra": {"waited_sec": 1.5, "stop": "tool_calls", "turn": 1, "duration_ms": 2100},
        "tool_calls": [
            {"tool_call_id": name, "function_name": "bash", "arguments": {"command": "ls"}}
            for name in ("a", "b")
        ],
        "observation": {
            "results": [
                {
                    "source_call_id": "b",
                    "content": "x\n",
                    "extra": {"exit_code": 0, "duration_ms": 7},
                },
                {"source_call_id": "a", "content": "outerr", "extra": {"exit_code": 2}},
            ]
        },
    }


def test_totals_are_the_sums_over_all_steps(tmp_path: Path) -> None:
    document = converted(tmp_path, Entry("user", "Do it."), REPLY, *CALLS, *RESULTS, REPLY)
    assert document["final_metrics"] == {
        "total_prompt_tokens": 270,
        "total_completion_tokens": 40,
        "total_cached_tokens": 60,
        "total_cost_usd": 0.5,
        "total_steps": 3,
    }


def test_a_cost_that_is_not_known_is_left_out(tmp_path: Path) -> None:
    unknown = Entry("assistant", metadata={"tokens_in": 1, "tokens_out": 2})
    assert converted(tmp_path, REPLY, unknown)["final_metrics"] == {
        "total_prompt_tokens": 136,
        "total_completion_tokens": 22,
        "total_cached_tokens": 30,
        "total_steps": 2,
    }


def test_tools_without_a_reply_are_a_step_without_a_model(tmp_path: Path) -> None:
    user = Entry("user", "Do it.")
    first, second, third = converted(tmp_path, CALLS[0], RESULTS[1], user, RESULTS[0])["steps"]
    assert first["llm_call_count"] == third["llm_call_count"] == 0
    assert first["observation"]["results"][0]["source_call_id"] == "a"
    assert second["source"] == "user"
    (late,) = third["observation"]["results"]
    assert "source_call_id" not in late
    assert late["extra"]["call_id"] == "b"


def test_arguments_that_are_not_an_object_are_still_a_call(tmp_path: Path) -> None:
    bad = Entry("tool_call", '{"command": ', call_id="a", tool_name="bash")
    shell = Entry("tool_call", call_id="b", tool_name="bash", command="ls")
    calls = converted(tmp_path, REPLY, bad, shell)["steps"][0]["tool_calls"]
    assert [call["arguments"] for call in calls] == [{}, {"command": "ls"}]
    assert calls[0]["extra"] == {"content": '{"command": '}


def test_without_an_entry_there_is_no_document(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(f"{json.dumps(HEADER)}\n")
    assert write_atif(tmp_path, "a", "1") is None
    assert not (tmp_path / ATIF_FILE).exists()


def test_a_directory_that_is_gone_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"trajectory\.json: cannot be written, No such file"):
        write_atif(tmp_path / "gone", "a", "1")


TEXTS = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
COUNTS = st.none() | st.integers(0, 10**9) | TEXTS
METADATA = st.dictionaries(TEXTS, JSON, max_size=3).flatmap(
    lambda other: st.fixed_dictionaries(
        {},
        optional={
            "tokens_in": COUNTS,
            "tokens_out": COUNTS,
            "tokens_cache_read": COUNTS,
            "cost_usd": st.none() | st.floats(0) | TEXTS,
            "model": st.none() | TEXTS | st.integers(),
            "reasoning": st.none() | TEXTS,
        },
    ).map(lambda known: {**other, **known})
)
IDS = st.none() | st.sampled_from(["", "a", "b", "unnamed_1"])
ENTRIES = st.builds(
    Entry,
    role=st.sampled_from(get_args(Role)),
    content=TEXTS,
    turn=st.none() | st.integers(),
    call_id=IDS,
    tool_name=st.none() | TEXTS,
    command=st.none() | TEXTS,
    arguments=st.none() | st.dictionaries(TEXTS, JSON, max_size=3),
    stdout=st.none() | TEXTS,
    stderr=st.none() | TEXTS,
    exit_code=st.none() | st.integers(),
    duration_ms=st.none() | st.integers(),
    metadata=METADATA,
    timestamp=st.none() | TEXTS | st.datetimes().map(lambda time: time.isoformat()),
)


@given(entries=st.lists(ENTRIES, min_size=1, max_size=8))
def test_any_entries_give_a_document_of_the_format(
    entries: list[Entry], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("any")
    document = converted(directory, *entries)
    said = [entry for entry in entries if entry.role in ("system", "user", "assistant")]
    assert [step["message"] for step in document["steps"] if step.get("llm_call_count") != 0] == [
        entry.content.encode("utf-8", "replace").decode() for entry in said
    ]
    calls = [call for step in document["steps"] for call in step.get("tool_calls", ())]
    assert len(calls) == sum(entry.role == "tool_call" for entry in entries)


def test_numbers_that_json_lacks_become_text(tmp_path: Path) -> None:
    arguments = {"x": [math.nan, {"y": math.inf}], "z": 1.5}
    call = Entry("tool_call", call_id="a", tool_name="t", arguments=arguments)
    (step,) = converted(tmp_path, REPLY, call)["steps"]
    assert step["tool_calls"][0]["arguments"] == {"x": ["nan", {"y": "inf"}], "z": 1.5}


def test_a_long_trajectory_is_not_held_in_memory(tmp_path: Path) -> None:
    trajectory = Trajectory(tmp_path)
    for turn in range(1, 101):
        trajectory.add("assistant", "x" * 90_000, turn=turn)
    trajectory.close()
    assert (tmp_path / FILE).stat().st_size > 9_000_000
    tracemalloc.start()
    try:
        write_atif(tmp_path, "a", "1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000
    assert len(check(tmp_path / ATIF_FILE)["steps"]) == 100


@pytest.mark.needs("python3.12")
@pytest.mark.nightly
def test_harbors_own_model_accepts_the_document(tmp_path: Path) -> None:
    entries = (Entry("system", "Be brief."), Entry("user", "Do it."), REPLY, *CALLS, *RESULTS)
    converted(tmp_path, CALLS[0], *entries, Entry("user", "Go on."), RESULTS[0])
    python = tmp_path / "venv/bin/python"
    # Harbor's models need nothing else of what Harbor needs.
    for command in (
        [find_python("3.13", "3.12"), "-m", "venv", tmp_path / "venv"],
        [python, "-m", "pip", "install", "-q", "--no-deps", "harbor"],
        [python, "-m", "pip", "install", "-q", "pydantic"],
    ):
        subprocess.run([str(part) for part in command], check=True)
    validate = (
        "import sys, pathlib; from harbor.models.trajectories import Trajectory; "
        "read = pathlib.Path(sys.argv[1]).read_bytes(); "
        "print(len(Trajectory.model_validate_json(read).steps))"
    )
    argv = [str(python), "-c", validate, str(tmp_path / ATIF_FILE)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("6\n", "")
