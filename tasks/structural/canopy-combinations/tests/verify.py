"""Expected answer: governing combinations of actions, each found as the maximum of a linear sum."""

import csv
from pathlib import Path

from aec_verify import Choice, Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
BLOCK, FRICTION, LEVER = 95.0, 0.45, 0.60
# On a site above 700 m.
PSI = {
    "maintenance": (0.0, 0.0, 0.0),
    "snow": (0.7, 0.5, 0.2),
    "wind": (0.6, 0.2, 0.0),
    "thermal": (0.6, 0.5, 0.0),
}

with (INPUTS / "actions.csv").open(encoding="utf-8", newline="") as stream:
    actions = {row["id"]: row for row in csv.DictReader(stream)}
ids = list(actions)
groups = {
    kind: [name for name in ids if actions[name]["kind"] == kind]
    for kind in (*PSI, "seismic", "accidental")
}


class Effect:
    """A linear sum ``a N + b V + c M`` of forces, and ``d`` times the weight of the block.

    The direction of an action that may turn is the one that makes the sum larger, so its part is
    known for each action alone. What remains is to choose which actions act.
    """

    def __init__(self, n: float, v: float, m: float, block: float, relief: float) -> None:
        self.relief = relief
        self.block = block * BLOCK
        self.part = {}
        for name, row in actions.items():
            turning = v * float(row["v_kn"]) + m * float(row["m_knm"])
            if row["direction"] == "either":
                turning = abs(turning)
            self.part[name] = n * float(row["n_kn"]) + turning

    def permanent(self, bad: float, good: float) -> float:
        """Return the worst sum of the permanent actions."""
        stay = max(bad * self.part["G1"], good * self.part["G1"])
        block = max(bad * self.block, good * self.block)
        return stay + block + max(bad * self.part["G2"], 0.0)

    def variable(self, kind: str, psi: float) -> float:
        """Return the worst that one action of a kind adds, or nothing."""
        return max(0.0, *(psi * self.part[name] for name in groups[kind]))

    def others(self, lead: str, at: int, scale: float) -> float:
        """Return the worst that variable actions add which may accompany the leading one."""
        kind = actions[lead]["kind"]
        thermal = 0.0 if kind == "thermal" else self.variable("thermal", scale * PSI["thermal"][at])
        if kind == "maintenance":
            return thermal
        outdoors = []
        for wind in ["", *groups["wind"]] if kind != "wind" else [""]:
            for snow in ["", *groups["snow"]] if kind != "snow" else [""]:
                if {"WU", "SD"} <= {lead, wind, snow}:
                    continue
                outdoors.append(
                    sum(
                        scale * PSI[actions[name]["kind"]][at] * self.part[name]
                        for name in (wind, snow)
                        if name
                    )
                )
        return thermal + max(outdoors)

    def worst(self) -> tuple[float, str]:
        """Return the largest sum and the leading action of its combination."""
        found = []
        for kind in PSI:
            for lead in groups[kind]:
                rest = self.others(lead, 0, 1.5)
                total = self.permanent(1.35, self.relief) + 1.5 * self.part[lead] + rest
                found.append((total, lead))
        base = self.permanent(1.0, 1.0)
        (quake,), (crash,) = groups["seismic"], groups["accidental"]
        found.append((base + self.part[quake] + self.variable("snow", PSI["snow"][2]), quake))
        frequent = [self.variable("snow", PSI["snow"][2])]
        for kind in ("snow", "wind", "thermal", "maintenance"):
            for main in groups[kind]:
                frequent.append(PSI[kind][1] * self.part[main] + self.others(main, 2, 1.0))
        found.append((base + self.part[crash] + max(frequent), crash))
        return max(found)


def largest(*effects: Effect) -> tuple[float, str]:
    """Return the worst of several sums, one for each sign of an absolute value."""
    return max(effect.worst() for effect in effects)


def excess(ratio: float) -> tuple[float, str]:
    """Return by how much the shear exceeds ``ratio`` times the friction, at most."""
    return largest(
        *(Effect(-ratio * FRICTION, sign, 0, -ratio * FRICTION, relief=0.9) for sign in (1, -1))
    )


def sliding() -> tuple[float, str]:
    """Return the largest ratio: the one beyond which no combination has an excess of shear."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle)[0] > 0 else (low, middle)
    return high, excess(high)[1]


compression, uplift = Effect(1, 0, 0, 0, 1.0).worst(), Effect(-1, 0, 0, 0, 0.9).worst()
moment = largest(*(Effect(0, 0, sign, 0, 1.0) for sign in (1, -1)))
bolt = largest(*(Effect(-0.5, 0, sign / LEVER, 0, 0.9) for sign in (1, -1)))
checks = {
    "compression_kn": (compression, 1, 0.12, 0.06),
    "uplift_kn": (uplift, -1, 0.12, 0.06),
    "moment_knm": (moment, 1, 0.12, 0.06),
    "bolt_kn": (bolt, 1, 0.16, 0.07),
    "sliding_ratio": (sliding(), 1, 0.16, 0.07),
}

fields = {}
for name, ((value, lead), sign, weight, share) in checks.items():
    check = name.partition("_")[0]
    fields[name] = Number(sign * value, rel=0.002, weight=weight)
    fields[f"{check}_leading"] = Choice(lead, ids, weight=share, needs=name)

verify(fields, output="/workspace/output.jsonl")
