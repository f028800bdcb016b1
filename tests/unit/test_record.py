from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta, timezone
from typing import Any, get_args
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.secrets import Scrubber
from pytest_aecbench.ledger.identity import trial_key
from pytest_aecbench.ledger.record import (
    AgentIdentity,
    AgentOutcome,
    Cost,
    DatasetIdentity,
    Environment,
    Evaluation,
    Failure,
    Inputs,
    OutputFile,
    Outputs,
    TaskIdentity,
    Timing,
    TrialRecord,
)
from pytest_aecbench.trials.record import scrubbed

STARTED = datetime(2026, 4, 12, 10, 0, 0, tzinfo=timezone.utc)
FAILURE = Failure(cause="launch", type="LaunchError", message="no room", phase="launch")


def scored(reward: float = 0.75, threshold: float = 1.0, **more: Any) -> Evaluation:
    return Evaluation(
        reward=reward,
        threshold=threshold,
        passed=reward >= threshold,
        validity="scored",
        **more,
    )


def failed(error: Failure = FAILURE) -> Evaluation:
    return Evaluation(reward=None, threshold=1.0, passed=None, validity="error", error=error)


def a_record(**changes: Any) -> TrialRecord:
    """Return a record with every part filled in, but for ``changes``."""
    agent = AgentIdentity(
        name="tool_loop:claude",
        harness="tool_loop",
        model="claude-sonnet-4",
        parameters={"max_turns": 12},
    )
    fields = {
        "trial_id": str(uuid4()),
        "trial_key": trial_key("d" * 64, agent, 1),
        "experiment_id": "exp-1",
        "run_id": "run-1",
        "task": TaskIdentity(
            task_id="electrical/voltage-drop",
            digest="d" * 64,
            domain="electrical",
            difficulty="easy",
            tags=("AS-NZS-3008",),
        ),
        "agent": agent,
        "repetition": 1,
        "attempt": 1,
        "environment": Environment(backend="docker", image="aec/voltage-drop:1f2e"),
        "inputs": Inputs(instruction_sha256="e" * 64, agent_timeout_sec=600),
        "outputs": Outputs(
            files=(OutputFile(path="workspace/output.jsonl", size=12, sha256="f" * 64),),
            output_path="/workspace/output.jsonl",
            output_excerpt='{"drop": 3}\n',
            jobs_dir="jobs/exp-1/x",
        ),
        "evaluation": scored(details={"compliance": 1}, breakdown={"checks": [1, None, "é"]}),
        "agent_result": AgentOutcome(status="completed", returncode=0, turns=7),
        "timing": Timing(started_at=STARTED, finished_at=STARTED + timedelta(seconds=40), agent=33),
        "cost": Cost(tokens_in=1200, tokens_out=300),
        "warnings": ("verifier exited with 1",),
        "harness_version": "0.1.0",
    }
    return TrialRecord(**{**fields, **changes})


def test_a_record_survives_being_stored_and_read() -> None:
    record = a_record()
    assert TrialRecord.from_json(record.to_json()) == record


def test_equal_records_are_stored_as_equal_bytes_that_end_in_one_newline() -> None:
    record = a_record()
    stored = record.to_json()
    assert TrialRecord.from_json(stored).to_json() == stored
    assert stored.endswith(b"}\n")


def test_keys_are_stored_in_the_order_of_the_schema() -> None:
    assert list(json.loads(a_record().to_json())) == list(TrialRecord.model_fields)


def test_a_record_cannot_be_changed() -> None:
    record = a_record()
    with pytest.raises(ValidationError):
        record.repetition = 2
    with pytest.raises(ValidationError):
        record.evaluation.reward = 1.0


def test_keys_that_a_newer_version_added_are_ignored() -> None:
    record = a_record()
    data = json.loads(record.to_json())
    data["mood"] = "fine"
    data["cost"]["joules"] = 3
    assert TrialRecord.from_json(json.dumps(data).encode()) == record


def test_a_record_of_a_newer_schema_is_refused_whatever_else_is_in_it() -> None:
    with pytest.raises(LedgerError) as raised:
        TrialRecord.from_json(b'{"schema_version": 2, "trials": []}')
    assert str(raised.value) == (
        "schema_version: 2 is not known here; this version of pytest-aecbench reads 1"
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Invalid JSON: EOF while parsing a value at line 1 column 0"),
        (b'{"schema_version": 1', "Invalid JSON: EOF while parsing an object"),
        (b"[]", "Input should be an object"),
        (b"\xff\xfe", "Invalid JSON"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(data: bytes, reason: str) -> None:
    with pytest.raises(LedgerError) as raised:
        TrialRecord.from_json(data)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_wrong_value_is_refused_with_its_place() -> None:
    data = json.loads(a_record().to_json())
    data["cost"]["tokens_in"] = -1
    with pytest.raises(LedgerError, match=r"^cost\.tokens_in: .*greater than or equal to 0"):
        TrialRecord.from_json(json.dumps(data).encode())


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_number_of_the_schema_can_be_other_than_finite(number: float) -> None:
    for build in (
        lambda: scored(number),
        lambda: scored(threshold=number),
        lambda: scored(details={"x": number}),
        lambda: Cost(usd=number),
        lambda: Timing(started_at=STARTED, finished_at=STARTED, agent=number),
        lambda: Inputs(instruction_sha256="e" * 64, agent_timeout_sec=number),
    ):
        with pytest.raises(ValidationError):
            build()


foreign = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(foreign)
def test_whatever_a_grader_says_is_stored_as_strict_json(breakdown: object) -> None:
    record = a_record(evaluation=scored(breakdown=breakdown))
    stored = record.to_json()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(stored, parse_constant=refuse)
    assert TrialRecord.from_json(stored) == record


def test_a_breakdown_that_is_nested_without_end_is_cut_and_still_read_back() -> None:
    nested: list[object] = []
    for _ in range(900):
        nested = [nested]
    record = a_record(evaluation=scored(breakdown=nested))
    assert TrialRecord.from_json(record.to_json()) == record
    assert b'"..."' in record.to_json()


def test_numbers_that_are_not_finite_are_null_in_a_breakdown() -> None:
    assert scored(breakdown={"a": math.nan, "b": [math.inf]}).breakdown == {"a": None, "b": [None]}


def test_parameters_as_yaml_reads_them_are_kept_as_json() -> None:
    parameters: Any = {"api_version": date(2024, 10, 21), 3: (1, 2)}
    agent = AgentIdentity(name="a", harness="direct", parameters=parameters)
    assert agent.parameters == {"api_version": "2024-10-21", "3": [1, 2]}


def test_what_an_agent_plans_and_says_of_its_end_is_stored_as_strict_json() -> None:
    odd: Any = {"a\ud800": ["\ud800", math.nan], 3: None}
    record = a_record(agent_result=AgentOutcome(status="failed", end="\ud800", plan=odd))
    stored = TrialRecord.from_json(record.to_json())
    assert stored == record
    assert stored.agent_result is not None
    assert stored.agent_result.plan == {"a?": ["?", None], "3": None}


def test_a_file_name_that_is_not_utf8_does_not_lose_the_record() -> None:
    name = b"out\xff.txt".decode("utf-8", "surrogateescape")
    record = a_record(outputs=Outputs(files=(OutputFile(path=name, size=0),)), warnings=(name,))
    assert TrialRecord.from_json(record.to_json()).outputs.files[0].path == "out?.txt"


@pytest.mark.parametrize(
    "fields",
    [
        {"validity": "scored", "reward": None, "passed": None},
        {"validity": "scored", "reward": 0.5, "passed": None},
        {"validity": "scored", "reward": 0.5, "passed": True},
        {"validity": "scored", "reward": 1.0, "passed": False},
        {"validity": "scored", "reward": 1.0, "passed": True, "error": FAILURE},
        {"validity": "scored", "reward": 1.5, "passed": True},
        {"validity": "error", "reward": 0.0, "passed": False, "error": FAILURE},
        {"validity": "error", "reward": None, "passed": None},
        {"validity": "crashed", "reward": None, "passed": None},
        {"validity": "interrupted", "reward": None, "passed": None},
        {"validity": "unverified", "reward": None, "passed": None, "error": FAILURE},
        {"validity": "fine", "reward": None, "passed": None},
    ],
)
def test_an_evaluation_cannot_contradict_itself(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Evaluation(threshold=1.0, **fields)


@pytest.mark.parametrize("validity", ["error", "crashed", "interrupted"])
def test_an_error_is_not_scored(validity: Any) -> None:
    evaluation = failed().model_copy(update={"validity": validity})
    assert not a_record(evaluation=evaluation).scored
    assert a_record(evaluation=scored(0.0)).scored


def test_times_are_stored_in_utc() -> None:
    perth = timezone(timedelta(hours=8))
    started = datetime(2026, 4, 12, 18, 0, tzinfo=perth)
    record = a_record(timing=Timing(started_at=started, finished_at=started))
    assert json.loads(record.to_json())["timing"]["started_at"] == "2026-04-12T10:00:00Z"
    with pytest.raises(ValidationError):
        Timing(started_at=datetime(2026, 4, 12), finished_at=started)


def test_an_unknown_cost_is_null_and_not_zero() -> None:
    cost = json.loads(a_record(cost=Cost(tokens_in=0)).to_json())["cost"]
    assert cost["tokens_in"] == 0
    assert cost["usd"] is None


@pytest.mark.parametrize("experiment_id", ["", "..", ".hidden", "a/b", "a\nb", "a\n", "x" * 129])
def test_a_record_cannot_name_a_path_outside_its_ledger(experiment_id: str) -> None:
    with pytest.raises(ValidationError):
        a_record(experiment_id=experiment_id)


def words_of(schema: type[BaseModel]) -> set[str]:
    """Return the names of a schema's fields and the words that they may have as values."""
    found: set[str] = set()
    for name, field in schema.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        parts = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        words = [word for kind in kinds for word in get_args(kind) or (kind,)]
        found |= {name, *filter(lambda word: isinstance(word, str), words)}
        found = found.union(*map(words_of, parts))
    return found


WORDS = {word for word in words_of(TrialRecord) if len(word) >= 8}


def test_a_secret_that_is_a_word_of_the_schema_changes_nothing_in_a_record() -> None:
    task = TaskIdentity(
        task_id="electrical/voltage-drop",
        digest="d" * 64,
        domain="electrical",
        visibility="holdout",
    )
    record = a_record(
        task=task,
        evaluation=failed(Failure(cause="interrupted", type="KeyboardInterrupt", message="no")),
        agent_result=AgentOutcome(status="timed_out", end="turn_limit"),
        timing=Timing(started_at=STARTED, finished_at=STARTED, starts={"teardown": 3.0}),
        completeness="partial",
        warnings=("one",),
    )
    words = {
        "electrical",
        "electrical/voltage-drop",
        "KeyboardInterrupt",
        "timed_out",
        "turn_limit",
    }
    assert {"complete", "interrupted", "evaluation", "agent_timeout_sec"} <= WORDS
    for word in WORDS | words:
        assert scrubbed(record, Scrubber({"STAGE": word})) == record, word


KEY = "sk-ant-0123456789abcdef"


def test_a_secret_is_removed_wherever_others_write_in_a_record() -> None:
    agent = AgentIdentity(name=f"x:{KEY}", harness="x", model=KEY, parameters={KEY: [{KEY: KEY}]})
    record = a_record(
        task=TaskIdentity(task_id="civil/a", digest="d" * 64, domain="civil", tags=("a", KEY)),
        dataset=DatasetIdentity(name=KEY, version=KEY, content_hash="d"),
        agent=agent,
        environment=Environment(backend="local", image=KEY, agent_image=KEY, mounts=(KEY,)),
        outputs=Outputs(
            files=(OutputFile(path="a", size=1), OutputFile(path=f"{KEY}/b", size=1)),
            output_path=f"/workspace/{KEY}",
            output_excerpt=KEY,
        ),
        evaluation=failed(Failure(cause="launch", type="LaunchError", message=f"no {KEY}")),
        agent_result=AgentOutcome(status="failed", error=KEY, plan={KEY: {KEY: KEY}}),
        warnings=(KEY, f"not {KEY}"),
    )
    clean = scrubbed(record, Scrubber({"MY_TOKEN": KEY}))
    assert KEY not in clean.to_json().decode()
    assert clean.agent.parameters == {"<MY_TOKEN>": [{"<MY_TOKEN>": "<MY_TOKEN>"}]}
    assert clean.outputs.files[1].path == "<MY_TOKEN>/b"
    found = a_record(evaluation=scored(details={KEY: 1}, breakdown={KEY: KEY}, cause=KEY))
    evaluation = scrubbed(found, Scrubber({"MY_TOKEN": KEY})).evaluation
    assert evaluation.details == {"<MY_TOKEN>": 1}
    assert evaluation.breakdown == {"<MY_TOKEN>": "<MY_TOKEN>"}
    assert evaluation.cause == "<MY_TOKEN>"


def test_a_secret_that_goes_on_from_one_value_of_a_record_to_the_next_is_removed() -> None:
    record = a_record(warnings=(KEY[:12], KEY[12:]))
    clean = scrubbed(record, Scrubber({"MY_TOKEN": KEY}))
    assert clean.warnings == ("<MY_TOKEN>", "<MY_TOKEN>")


UUID = "3f0c9a52-7d1e-4b86-9c55-0a6d2f4e8b17"


@pytest.mark.parametrize(
    "trial_id", ["", "../x", "trial-1", UUID.upper(), f"{UUID}\n", UUID.replace("-4", "-1")]
)
def test_a_trial_id_is_a_lowercase_uuid4(trial_id: str) -> None:
    with pytest.raises(ValidationError):
        a_record(trial_id=trial_id)
    assert a_record(trial_id=UUID).trial_id == UUID
