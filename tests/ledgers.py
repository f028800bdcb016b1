"""Ledgers with many made-up trials, as a benchmark leaves them: agents of different strength."""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pydantic import JsonValue

from pytest_aecbench.ledger.identity import trial_key
from pytest_aecbench.ledger.instructions import instruction_file
from pytest_aecbench.ledger.record import (
    AgentIdentity,
    AgentOutcome,
    Cost,
    Environment,
    Evaluation,
    Failure,
    Inputs,
    Outputs,
    TaskIdentity,
    Timing,
    TrialRecord,
)

STARTED = datetime(2026, 4, 12, 9, 30, tzinfo=timezone.utc)
DOMAINS = ("building", "civil", "electrical", "ground", "mechanical", "structural", "water")
TOPICS = ("voltage-drop", "pump-duty", "beam-check", "heat-loss", "retaining-wall", "sewer-grade")
AGENTS = (
    ("claude-tool-loop", "tool_loop", "claude-sonnet-4", 0.82, 0.11),
    ("gpt-tool-loop", "tool_loop", "gpt-4.1", 0.74, 0.06),
    ("gpt-direct", "direct", "gpt-4.1-mini", 0.45, 0.004),
    ("local-command", "command", None, 0.3, None),
    ("codex", "codex", "o4-mini", 0.68, 0.035),
)
CAUSES = ("provider", "launch", "verifier")
PARTS = ("compliance", "current_a", "voltage_drop_v")
INSTRUCTION = "Size the conductor of task {n}.\n\nWrite your result to `/workspace/output.jsonl`.\n"


def records(
    trials: int,
    *,
    experiment: str = "nightly",
    agents: int = 5,
    repetitions: int = 3,
    seed: int = 1,
    shift: float = 0.0,
) -> Iterator[TrialRecord]:
    """Yield the records of so many trials; ``shift`` makes every agent better or worse."""
    random_ = random.Random(seed)
    lanes = [0.0] * 8
    for number in range(trials):
        rest, repetition = divmod(number, repetitions)
        task_number, agent_number = divmod(rest, agents)
        name, harness, model, strength, usd = AGENTS[agent_number]
        agent = AgentIdentity(name=name, harness=harness, model=model, parameters={"max_turns": 20})
        task = task_of(task_number)
        key = trial_key(task.digest, agent, repetition + 1)
        hardness = random.Random(task_number).uniform(-0.35, 0.35)
        scores = {part: float(random_.random() < strength - hardness + shift) for part in PARTS}
        reward = round(sum(scores.values()) / len(scores), 4)
        lane = min(range(len(lanes)), key=lanes.__getitem__)
        begun = STARTED + timedelta(seconds=lanes[lane])
        agent_sec = random_.lognormvariate(3.4, 0.6)
        lanes[lane] += agent_sec + 8
        is_error = random_.random() < 0.03
        turns = random_.randint(3, 24) if model else None
        trial_id = str(uuid.UUID(int=random_.getrandbits(128), version=4))
        yield TrialRecord(
            trial_id=trial_id,
            trial_key=key,
            experiment_id=experiment,
            run_id="20260412T093000-5d2a",
            task=task,
            agent=agent,
            repetition=repetition + 1,
            attempt=1,
            environment=Environment(backend="docker", image=f"aecbench/task:{task_number:012x}"),
            inputs=Inputs(
                instruction_sha256=sha256(INSTRUCTION.format(n=task_number)),
                agent_timeout_sec=600,
            ),
            outputs=Outputs(
                output_path="/workspace/output.jsonl",
                output_excerpt=json.dumps({"current_a": round(random_.uniform(1, 90), 3)}),
                jobs_dir=f"jobs/{experiment}/{trial_id}",
            ),
            evaluation=_error(random_) if is_error else _scored(reward, scores),
            agent_result=AgentOutcome(
                status="timed_out" if agent_sec > 100 else "completed",
                turns=turns,
            ),
            timing=Timing(
                started_at=begun,
                finished_at=begun + timedelta(seconds=agent_sec + 7.5),
                wait=0.5,
                build=2.0,
                launch=1.0,
                agent=agent_sec,
                collect=0.5,
                verify=3.0,
                starts={
                    "build": 0.0,
                    "wait": 2.0,
                    "launch": 2.5,
                    "agent": 3.5,
                    "collect": agent_sec + 3.5,
                    "verify": agent_sec + 4,
                },
            ),
            cost=Cost(
                tokens_in=random_.randint(4_000, 90_000) if model else None,
                tokens_out=random_.randint(300, 9_000) if model else None,
                usd=None if usd is None else round(usd * random_.uniform(0.4, 2.2), 6),
            ),
            warnings=("verifier exited with 1",) if random_.random() < 0.02 else (),
            harness_version="0.1.0",
        )


def task_of(number: int) -> TaskIdentity:
    domain = DOMAINS[number % len(DOMAINS)]
    return TaskIdentity(
        task_id=f"{domain}/{TOPICS[number % len(TOPICS)]}-{number:04}",
        digest=f"sha256:{sha256(str(number))}",
        domain=domain,
        difficulty=("easy", "medium", "hard")[number % 3],
        tags=(domain, "AS-NZS-3008" if number % 2 else "EN-1993"),
    )


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _scored(reward: float, scores: dict[str, float]) -> Evaluation:
    fields: dict[str, JsonValue] = {
        name: {"ok": score == 1, "score": score, "got": 3.1, "expected": 3.2, "error": None}
        for name, score in scores.items()
    }
    return Evaluation(
        reward=reward,
        threshold=1,
        passed=reward >= 1,
        validity="scored",
        details=scores,
        breakdown={"problem": None, "fields": fields},
        verifier_returncode=0,
    )


def _error(random_: random.Random) -> Evaluation:
    cause = random_.choice(CAUSES)
    container = f"{random_.getrandbits(48):012x}"
    message = f"{cause} gave up after {random_.randint(1, 90)} s; see container {container}"
    failure = Failure(cause=cause, type="BackendError", message=message, phase="agent")
    return Evaluation(reward=None, threshold=1, passed=None, validity="error", error=failure)


def write_files(jobs_root: Path, record: TrialRecord, task_number: int = 0) -> None:
    """Write what a trial of a model agent leaves: instruction, trajectory, output, logs."""
    text = INSTRUCTION.format(n=task_number)
    path = instruction_file(jobs_root, record.experiment_id, sha256(text))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    directory = jobs_root / record.experiment_id / record.trial_id
    turns = record.agent_result.turns if record.agent_result else None
    files = {
        "workspace/output.jsonl": '{"current_a": 31.2}\n',
        "logs/verifier/test-stdout.txt": "current_a: got 3.1, expected 3.2\n" * 5,
    }
    if turns:
        files["agent/trajectory.jsonl"] = trajectory(turns, random.Random(record.trial_id))
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(content)


def trajectory(turns: int, random_: random.Random) -> str:
    """Return a trajectory of code-like text, about 1.7 kB a turn."""
    lines: list[dict[str, object]] = [{"version": 1, "format": "aec-bench-trajectory"}]
    lines.append({"role": "system", "content": "You are an engineer.", "step": 1})
    lines.append({"role": "user", "content": "Size the conductor.", "step": 2})
    for turn in range(1, turns + 1):
        usage = {"tokens_in": random_.randint(900, 9000), "tokens_out": random_.randint(40, 900)}
        lines += [
            {
                "role": "assistant",
                "content": _prose(random_, 40),
                "turn": turn,
                "duration_ms": random_.randint(700, 9000),
                "metadata": {
                    **usage,
                    "cost_usd": 0.01,
                    "model": "m",
                    "reasoning": _prose(random_, 60),
                },
            },
            {
                "role": "tool_call",
                "content": "",
                "turn": turn,
                "tool_name": "bash",
                "call_id": f"c{turn}",
                "arguments": {"command": f"python3 - <<'E'\n{_code(random_, 8)}\nE"},
            },
            {
                "role": "tool_result",
                "content": _code(random_, 12),
                "turn": turn,
                "call_id": f"c{turn}",
                "exit_code": int(random_.random() < 0.1),
                "duration_ms": random_.randint(20, 2000),
            },
        ]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


_WORDS = (
    *("the", "current", "rating", "voltage", "drop", "conductor", "table", "ambient", "factor"),
    *("length", "cable", "load", "check", "limit", "span", "moment", "shear", "section", "steel"),
    *("grade", "answer", "result", "write", "read", "file", "compliant", "derating"),
)


def _prose(random_: random.Random, words: int) -> str:
    return " ".join(random_.choice(_WORDS) for _ in range(words)).capitalize() + "."


def _code(random_: random.Random, lines: int) -> str:
    return "\n".join(
        f"{random_.choice(_WORDS)}_{random_.randint(1, 99)} = {random_.uniform(0, 500):.4f}"
        for _ in range(lines)
    )
