"""Grade the answer field by field: each is worth its share, within its tolerance."""

import json
import math
from pathlib import Path

LOGS = Path("/logs/verifier")

# Not read from the workspace, which the agent may have changed.
WIDTH, THICKNESS = 150.0, 6.0  # mm
EFFECTIVE_LENGTH = 1.0 * 7500.0  # mm
MODULUS = 200_000.0  # MPa
LOAD, REQUIRED_MARGIN = 150.0, 2.5  # kN

inner = WIDTH - 2 * THICKNESS
area = WIDTH**2 - inner**2
second_moment = (WIDTH**4 - inner**4) / 12
critical_load = math.pi**2 * MODULUS * second_moment / EFFECTIVE_LENGTH**2 / 1000

# field: expected value, share of the reward, relative tolerance
NUMBERS = {
    "second_moment_mm4": (second_moment, 0.25, 0.005),
    "slenderness": (EFFECTIVE_LENGTH / math.sqrt(second_moment / area), 0.25, 0.005),
    "critical_load_kn": (critical_load, 0.3, 0.005),
}
ADEQUATE, ADEQUATE_SHARE = critical_load / LOAD >= REQUIRED_MARGIN, 0.2


def read_answer():
    """Return the agent's one JSON object, or an empty one for anything else."""
    try:
        answer = json.loads(Path("/workspace/output.jsonl").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def is_near(value, expected, tolerance):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value - expected) <= tolerance * abs(expected)  # never true of NaN


answer = read_answer()
scores = {
    name: int(is_near(answer.get(name), expected, tolerance))
    for name, (expected, _, tolerance) in NUMBERS.items()
}
# A guess is right half of the time, so it counts only with the figure that it rests on.
scores["adequate"] = int(answer.get("adequate") is ADEQUATE and scores["critical_load_kn"] == 1)
shares = {name: share for name, (_, share, _) in NUMBERS.items()} | {"adequate": ADEQUATE_SHARE}
reward = sum(shares[name] * score for name, score in scores.items())

expected = {name: value for name, (value, _, _) in NUMBERS.items()} | {"adequate": ADEQUATE}
details = {name: {"expected": expected[name], "ok": bool(scores[name])} for name in scores}
(LOGS / "details.json").write_text(json.dumps(details, indent=2))
(LOGS / "reward.json").write_text(json.dumps({"reward": round(reward, 6), **scores}))
