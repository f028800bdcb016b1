"""ATIF of other programs is read as a trajectory, and our own comes back as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.agents.atif import write_atif
from pytest_aecbench.agents.atif_reading import read_atif
from pytest_aecbench.agents.trajectory import Trajectory


def test_what_we_write_is_read_back(tmp_path: Path) -> None:
    trajectory = Trajectory(tmp_path)
    trajectory.add("user", "Do it.")
    usage = {"tokens_in": 7, "tokens_cache_read": 3, "tokens_out": 2, "cost_usd": 0.5, "model": "m"}
    trajectory.add("assistant", "I try.", turn=1, metadata={**usage, "reasoning": "Hm."})
    trajectory.add(
        "tool_call", turn=1, call_id="c", tool_name="bash", arguments={"command": "false"}
    )
    trajectory.add("tool_result", "no", turn=1, call_id="c", exit_code=1, duration_ms=4)
    trajectory.close()
    path = write_atif(tmp_path, "it", "1")
    assert path is not None
    user, reply, call, result = read_atif(path)
    assert (user.role, user.content) == ("user", "Do it.")
    assert (reply.role, reply.content, reply.turn) == ("assistant", "I try.", 1)
    assert dict(reply.metadata) == {**usage, "reasoning": "Hm."}
    assert (call.tool_name, call.arguments) == ("bash", {"command": "false"})
    assert (result.content, result.exit_code, result.duration_ms) == ("no", 1, 4)


def test_parts_subagents_and_continuations_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    subagent = {"trajectory_path": "sub.json"}
    image = {"type": "image", "source": {}}
    step = {
        "source": "agent",
        "message": [{"type": "text", "text": "Look."}, image],
        "unknown": 1,
        "observation": {"results": [{"subagent_trajectory_ref": [subagent]}]},
    }
    data = {
        "schema_version": "ATIF-v1.9",
        "steps": [step, "torn", {"source": "?"}],
        "continued_trajectory_ref": "next.json",
    }
    path.write_text(json.dumps(data))
    reply, result, last = read_atif(path)
    assert reply.content == "Look.\n[image]"
    assert result.metadata["link"] == "subagent: sub.json"
    assert last.metadata["link"] == "continued in next.json"


@pytest.mark.parametrize("data", [[], {}, {"schema_version": "ATIF-v2.0"}, {"schema_version": 1}])
def test_other_json_is_refused(tmp_path: Path, data: Any) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match="not ATIF"):
        list(read_atif(path))
