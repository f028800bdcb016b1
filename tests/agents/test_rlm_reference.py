"""A second opinion: the harness that made recursive models known, on the same task and model."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from tests.agents.recursion import Workshop
from tests.agents.test_rlm_models import COUNTING, DOC, asked, server
from tests.programs import directory_of
from tests.standins.models import KEY, ModelServer, Turn, Wish

__all__ = ["server"]

MODEL = "gpt-4.1"
# Both let code declare an answer in this way.
CODE = (
    COUNTING.replace("FINAL(sum(int(count) for count in counts))", "")
    + """
answer['content'] = str(sum(int(count) for count in counts))
answer['ready'] = True
"""
)
REFERENCE = """
import json, sys
from rlm import RLM
told = json.load(sys.stdin)
model = {"model_name": told["model"], "base_url": told["url"], "api_key": told["key"]}
rlm = RLM(backend="openai", backend_kwargs=model, environment="local")
print(rlm.completion(told["doc"], root_prompt="Count the pumps.").response)
"""


def engineer(body: Any) -> Turn:
    """Count what a prompt has, or as a root model run the cell, by a tool if there is one."""
    if "for water?" in asked(body):
        return Turn(str(asked(body).count("pump")))
    if body.get("tools"):
        return Turn(calls=(Wish("repl", {"code": CODE}),))
    return Turn(f"```repl\ndoc = context\n{CODE}```")


@pytest.mark.nightly
@pytest.mark.skipif(sys.version_info < (3, 11), reason="the other harness needs Python 3.11")
def test_another_harness_counts_the_same(workshop: Workshop, server: ModelServer) -> None:
    chosen = random.Random(11)
    doc = "".join(f"{chosen.choice(('pump', 'fan', 'beam'))} {n:06}\n" for n in range(90_000))
    server.policies[MODEL] = engineer
    ours = workshop.run(MODEL, workshop.task(DOC, {"doc.txt": doc}))
    asked_ours = len(server.calls)
    told = {"model": MODEL, "url": f"{server.url}/v1", "key": KEY, "doc": doc}
    theirs = subprocess.run(
        [directory_of("rlms") / "python", "-c", REFERENCE],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert theirs.returncode == 0, theirs.stderr
    assert theirs.stdout.strip() == ours.output == str(doc.count("pump"))
    assert asked_ours == len(server.calls) - asked_ours == 9
