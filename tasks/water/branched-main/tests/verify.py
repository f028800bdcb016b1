"""Expected answer: the cheapest design within all limits, found by branch and bound."""

import csv
import math
from pathlib import Path

from aec_verify import Field, Number, Unusable, Verdict, read_answer, verify

OUTPUT = "/workspace/output.jsonl"
# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
LEVEL, MAX_DIAMETERS, WASTEFUL, NOT_CHEAPEST = 96.0, 3, 0.10, 0.8


def table(name: str) -> dict[str, dict[str, str]]:
    """Read a table by its first column."""
    with (INPUTS / name).open(encoding="utf-8", newline="") as stream:
        return {next(iter(row.values())): row for row in csv.DictReader(stream)}


stretches, nodes, catalogue = table("stretches.csv"), table("nodes.csv"), table("catalogue.csv")
ORDER = list(stretches)  # each stretch comes after the one upstream of it
feeders = {row["to"]: name for name, row in stretches.items()}


def way(node: str) -> list[str]:
    """Return the stretches from the reservoir to a node."""
    found: list[str] = []
    while node != "R":
        found.append(feeders[node])
        node = stretches[feeders[node]]["from"]
    return found


flows = {
    name: math.fsum(
        float(node["peak_demand_l_s"]) / 1000 for key, node in nodes.items() if name in way(key)
    )
    for name in ORDER
}


def loss(name: str, pipe: str) -> float:
    bore = float(catalogue[pipe]["bore_mm"]) / 1000
    length = float(stretches[name]["length_m"])
    return 10.67 * length * (flows[name] / 140) ** 1.852 / bore**4.87


def cost(name: str, pipe: str) -> int:
    return int(stretches[name]["length_m"]) * int(catalogue[pipe]["price_eur_m"])


def fault_of_one(name: str, pipe: str) -> str | None:
    """Return the limit that a pipe breaks in its stretch, whatever the others are."""
    row, bore = stretches[name], float(catalogue[pipe]["bore_mm"]) / 1000
    velocity = 4 * flows[name] / (math.pi * bore**2)
    lowest = min(float(nodes[end]["ground_m"]) for end in (row["from"], row["to"]) if end in nodes)
    if not 0.5 <= velocity <= 1.8:
        return f"{name}: velocity {velocity:.2f} m/s"
    if 1.15 * (LEVEL - lowest) > 10 * int(catalogue[pipe]["class"]):
        return f"{name}: head at rest"
    if row["remark"] and catalogue[pipe]["class"] != "8":
        return f"{name}: class below the motorway"
    return None


def diameter(pipe: str) -> int:
    return int(catalogue[pipe]["nominal_mm"])


def margins(design: dict[str, str]) -> dict[str, float]:
    """Return by how much heads exceed what is required, at the nodes that a design reaches."""
    return {
        key: LEVEL
        - math.fsum(loss(name, design[name]) for name in way(key))
        - float(node["ground_m"])
        - float(node["required_head_m"])
        for key, node in nodes.items()
        if feeders[key] in design
    }


def fault(design: dict[str, str]) -> str | None:
    """Return a limit that a design, or the part of it there is, breaks."""
    for name, pipe in design.items():
        if one := fault_of_one(name, pipe):
            return one
        upstream = feeders.get(stretches[name]["from"])
        if upstream and diameter(pipe) > diameter(design[upstream]):
            return f"{name}: wider than {upstream}"
    if len({diameter(pipe) for pipe in design.values()}) > MAX_DIAMETERS:
        return "too many diameters"
    short = [node for node, margin in margins(design).items() if margin < 0]
    return f"pressure at {', '.join(short)}" if short else None


def total(design: dict[str, str]) -> int:
    return sum(cost(name, pipe) for name, pipe in design.items())


def cheapest() -> dict[str, str]:
    """Extend partial designs stretch by stretch, as long as they can still become the cheapest."""
    fitting = {
        name: sorted(
            (pipe for pipe in catalogue if not fault_of_one(name, pipe)),
            key=lambda pipe: cost(name, pipe),
        )
        for name in ORDER
    }
    floor = {name: cost(name, pipes[0]) for name, pipes in fitting.items()}
    best: dict[str, str] = {}

    def extend(design: dict[str, str]) -> None:
        nonlocal best
        rest = ORDER[len(design) :]
        if best and total(design) + sum(floor[name] for name in rest) >= total(best):
            return
        if not rest:
            best = design
            return
        for pipe in fitting[rest[0]]:
            longer = {**design, rest[0]: pipe}
            if not fault(longer):
                extend(longer)

    extend({})
    return best


BEST = cheapest()


def chosen(value: object) -> dict[str, str]:
    """Return the design that a list of ids stands for, or nothing."""
    is_design = isinstance(value, list) and len(value) == len(ORDER)
    if not is_design or not all(isinstance(pipe, str) and pipe in catalogue for pipe in value):
        return {}
    return dict(zip(ORDER, value))


class Design(Field):
    """A list of pipes within all limits; what it costs decides what it earns."""

    expected = list(BEST.values())
    tolerance = "least cost"

    def judge(self, value: object) -> Verdict:
        """Check the limits, then compare the costs."""
        design = chosen(value)
        if not design:
            return Verdict(0.0, "is not a list of one pipe of the catalogue for each stretch")
        if broken := fault(design):
            return Verdict(0.0, broken)
        excess = total(design) / total(BEST) - 1
        if not excess:
            return Verdict(1.0)
        return Verdict(
            NOT_CHEAPEST * max(0.0, 1 - excess / WASTEFUL), f"costs {100 * excess:.1f} % too much"
        )


class OwnFigure(Number):
    """A figure of the agent's own design, which has to keep all limits."""

    def judge(self, value: object) -> Verdict:
        """Compare with the design's figure."""
        return super().judge(value) if own else Verdict(0.0, "counts only with a valid design")


try:
    answer = read_answer(OUTPUT)
except Unusable:
    answer = {}
own = chosen(answer.get("pipes"))
own = {} if own and fault(own) else own

verify(
    {
        "pipes": Design(weight=0.7),
        "cost_eur": OwnFigure(total(own or BEST), weight=0.15),
        "least_margin_m": OwnFigure(min(margins(own or BEST).values()), abs=0.02, weight=0.15),
    },
    output=OUTPUT,
)
