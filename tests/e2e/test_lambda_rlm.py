"""The shipped report, written by ``lambda-rlm`` through a vendor's SDK on several backends."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends.local import LocalBackend
from tests.agents.lambda_rlm import facts, review, step_of
from tests.e2e.shipped import ROOT, with_policy
from tests.e2e.test_vendors import plugins_for, serving
from tests.standins.models import Turn
from tests.standins.models.policy import Asked

TASK = "structural/bridge-report"
_ENTRY = re.compile(r"^(?:(S\d\d-\w\d),.*)?((?:Defect|Correction|Addition): .*)$", re.MULTILINE)
_CORE = re.compile(r"^C\d\d,[^,]+,\d+,([\d.]+),(.*)$", re.MULTILINE)
_GIVEN = re.compile(r'"name": "([^"]+)",\s*"value": "([^"]+)"')
_CRACK = re.compile(r"crack.*? ([\d.]+) mm wide")
_SPALL = re.compile(r"(?:over|covers) ([\d.]+) m²")


def engineer(asked: Asked) -> Turn:
    """Do each step as a careful engineer does; the text of a section lists what was found."""
    phase, section, _ = step_of(asked)
    if phase == "extract":
        return facts(extracted(asked.first.partition("## The text of ")[2]))
    if phase == "reduce":
        return facts(dict(_GIVEN.findall(asked.first)))
    if phase == "review":
        return review()
    if section == "summary":
        return Turn(f"Repair it.\n\n```json\n{json.dumps(answer(asked.first))}\n```")
    lines = [f"- {name}: {value}" for name, value in _GIVEN.findall(asked.first)]
    return Turn("\n".join(lines) or "Nothing.")


def extracted(text: str) -> dict[str, str]:
    found = {}
    for element, sentence in _ENTRY.findall(text):
        kind = sentence.partition(":")[0]
        named = re.search(r"\bS\d\d-\w\d\b", sentence)
        found[f"{kind} {element or (named and named[0])}"] = sentence.partition(": ")[2]
    for number, (strength, remark) in enumerate(_CORE.findall(text), 1):
        found[f"Core {number}"] = remark or strength
    return found


def answer(text: str) -> dict[str, Any]:
    """Apply the brief to the sections that the summary depends on."""
    cracks: dict[str, float] = {}
    spalls: dict[str, float] = {}
    rows = re.findall(r"^- (\w+) (S\d\d-G\d): (.+)$", text, re.MULTILINE)
    for kind in ("Defect", "Addition", "Correction"):
        for _, element, sentence in (row for row in rows if row[0] == kind):
            widths = _CRACK.findall(sentence) or re.findall(r"It is ([\d.]+) mm wide", sentence)
            if widths:
                cracks[element] = float(widths[-1])
            if areas := _SPALL.findall(sentence):
                spalls[element] = float(areas[-1])
    cores = [float(core) for core in re.findall(r"^- Core \d+: ([\d.]+)$", text, re.MULTILINE)]
    repair = [name for name in cracks if cracks[name] > (0.3 if name[1:3] <= "04" else 0.4)]
    strength = statistics.mean(cores) - 1.48 * statistics.stdev(cores)
    return {
        "repair": repair,
        "worst_crack_at": max(cracks, key=lambda name: cracks[name]),
        "repair_area_m2": 1.15 * sum(spalls.values()),
        "strength_mpa": strength,
        "limit_t": math.floor(44 * min(1.0, strength / 35) - 0.5 * len(repair)),
    }


def forgetful(asked: Asked) -> Turn:
    """Lose what the last part of each source said."""
    found = re.search(r", part (\d+) of (\d+)\n", asked.first)
    return facts({}) if found and found[1] == found[2] else engineer(asked)


def run(directory: Path, policy: Callable[[Asked], Turn], *options: str) -> tuple[Any, list[Asked]]:
    return with_policy(directory, TASK, "lambda-rlm:claude-sonnet-4-5", policy, *options)


def check(record: dict[str, Any], asked: list[Asked]) -> None:
    assert record["evaluation"]["reward"] == 1, record
    assert (record["agent_result"]["end"], record["warnings"]) == ("written", [])
    plan = record["agent_result"]["plan"]
    source = plan["sections"]["condition"]["sources"]["inspection-log"]
    assert (source["leaves"], source["reduces"]) == (4, 1)
    assert record["cost"]["calls"] == len(asked) == plan["calls_planned"] == 19
    instruction = (ROOT / "tasks" / TASK / "instruction.md").read_text().strip()
    assert all(instruction in one.system for one in asked)


@pytest.mark.parametrize("mode", ["namespaces", "rewriting"])
@pytest.mark.needs("namespaces")
def test_facts_of_a_long_log_reach_the_report(tmp_path: Path, mode: str) -> None:
    check(*run(tmp_path, engineer, f"--aec-local-mode={mode}"))


def test_a_model_that_loses_facts_earns_less(tmp_path: Path) -> None:
    record, _ = run(tmp_path, forgetful)
    assert record["evaluation"]["reward"] == pytest.approx(0.2)


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_in_a_container(tmp_path: Path) -> None:
    check(*run(tmp_path, engineer, "--aec-backend=docker"))


@pytest.mark.nightly
@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("vendor", ["e2b", "daytona", "modal"])
def test_at_a_vendor(tmp_path: Path, vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(vendor, LocalBackend(), monkeypatch):
        check(*run(tmp_path, engineer, f"--aec-backend={vendor}", *plugins_for(vendor)))
