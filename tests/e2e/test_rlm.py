"""The shipped diary, read by ``rlm`` through a vendor's SDK on several backends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.agents.rlm.prompts import SUBCALL
from pytest_aecbench.backends.local import LocalBackend
from tests.costs import at_night
from tests.e2e.shipped import ROOT, with_policy
from tests.e2e.test_vendors import plugins_for, serving
from tests.standins.models import Turn, Wish
from tests.standins.models.policy import Asked

TASK = "construction/site-diary"
AGENT = "rlm:claude-sonnet-4-5"
LOOK = "print(len(diary), diary[:1000])"
ASK = """
days = diary.split('\\n## ')
parts = ['\\n'.join(days[start : start + 30]) for start in range(0, len(days), 30)]
question = 'Repeat each sentence with the word ticket or crane:\\n\\n'
said = llm_query_batched([question + part for part in parts])
print(len(said), said[0][:200])
"""


def engineer(asked: Asked) -> Turn:
    """Look at the diary, have models read it, and add up what they say by code."""
    if asked.system == SUBCALL:
        sentences = re.split(r"(?<=\.)\s+", asked.first.partition("\n\n")[2])
        wanted = [one for one in sentences if re.search(r"ticket|crane", one, re.IGNORECASE)]
        return Turn("\n".join(wanted) or "none")
    solution = (ROOT / "tasks" / TASK / "solution/solve.py").read_text()
    reading = solution.index("with open"), solution.index("VOLUME, TICKET")
    adding = f"import json, re\ndiary = ' '.join(said)\n{solution[reading[1] :]}\nFINAL()"
    return Turn(calls=(Wish("repl", {"code": (LOOK, ASK, adding)[min(asked.turns, 2)]}),))


def check(record: dict[str, Any], asked: list[Asked]) -> None:
    assert record["evaluation"]["reward"] == 1, record
    result = record["agent_result"]
    assert (result["end"], result["turns"], record["warnings"]) == ("submitted", 3, [])
    assert record["cost"]["calls"] == len(asked) == 3 + 15
    diary = (ROOT / "tasks" / TASK / "environment/site-diary.md").read_text()
    roots = [one for one in asked if one.system != SUBCALL]
    pieces = [diary[start : start + 3000] for start in range(0, len(diary) - 3000, 3000)]
    assert not any(piece in one.last for one in roots for piece in pieces)


@pytest.mark.parametrize("mode", ["namespaces", at_night("rewriting")])
@pytest.mark.needs("namespaces")
def test_a_long_diary_is_read_by_models_that_code_asks(tmp_path: Path, mode: str) -> None:
    check(*with_policy(tmp_path, TASK, AGENT, engineer, f"--aec-local-mode={mode}"))


@pytest.mark.nightly
@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_in_a_container(tmp_path: Path) -> None:
    check(*with_policy(tmp_path, TASK, AGENT, engineer, "--aec-backend=docker"))


@pytest.mark.nightly
@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("vendor", ["e2b", "daytona", "modal"])
def test_at_a_vendor(tmp_path: Path, vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(vendor, LocalBackend(), monkeypatch):
        options = (f"--aec-backend={vendor}", *plugins_for(vendor))
        check(*with_policy(tmp_path, TASK, AGENT, engineer, *options))
