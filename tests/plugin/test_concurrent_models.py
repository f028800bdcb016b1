"""Model agents side by side in one process: their calls overlap, and they share a budget."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from tests.project import Project
from tests.standins.models import ModelServer
from tests.standins.models.scripts import RETRY_SEC

LANES = "--aec-concurrency=4"


class Meeting(ModelServer):
    """Answers when as many requests are there as are to meet; notes the most, and when each came.

    One that waits in vain is answered all the same, so that a run ends.
    """

    meet = 2

    def __init__(self) -> None:
        self.waiting: set[asyncio.Event] = set()
        self.most = 0
        self.came: list[float] = []
        super().__init__(keyless=True)

    async def _answer(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.came.append(time.monotonic())
        mine = asyncio.Event()
        self.waiting.add(mine)
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) >= self.meet:
            for one in self.waiting:
                one.set()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(mine.wait(), 15)
        self.waiting.discard(mine)
        return await super()._answer(request, handler)


@pytest.fixture
def server() -> Iterator[Meeting]:
    server = Meeting()
    yield server
    server.close()


def run(
    project: Project, server: Meeting, trials: int, *arguments: str, **settings: object
) -> pytest.RunResult:
    for number in range(trials):
        project.task(f"civil/t{number}", toml='[verifier]\nenvironment_mode = "shared"\n')
    client = {"kind": "openai", "settings": {"base_url": f"{server.url}/v1", **settings}}
    agent = {"name": "a", "harness": "direct", "model": "gpt-4o", "client": client}
    (project.path / "experiment.yaml").write_text(json.dumps({"agents": [agent]}))
    return project.run(LANES, "--aec-experiment=experiment.yaml", *arguments)


def test_calls_of_two_trials_overlap(project: Project, server: Meeting) -> None:
    result = run(project, server, 2, "-s")
    result.assert_outcomes(failed=2)
    assert server.most == 2
    for number in range(2):  # with -s each line of a turn has the name of its trial
        result.stdout.fnmatch_lines([f"civil/t{number}?a-1? | turn 1*"])
        assert result.stdout.lines.count(f"civil/t{number}[a-1] | done") == 1
    assert [record["agent_result"]["status"] for record in project.records()] == ["completed"] * 2


def test_trials_share_the_requests_that_may_be_in_flight(project: Project, server: Meeting) -> None:
    run(project, server, 4, max_in_flight=2).assert_outcomes(failed=4)
    assert server.most == 2


def test_when_one_trial_is_told_to_slow_down_all_wait(project: Project, server: Meeting) -> None:
    server.meet = 1
    server.queue.append("rate_seconds")
    run(project, server, 3, max_in_flight=1).assert_outcomes(failed=3)
    first, second = server.came[:2]
    assert len(server.came) == 4
    assert second - first >= RETRY_SEC - 0.5
