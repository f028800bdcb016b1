"""Try all combinations of the pipes that suit each stretch by itself."""

import csv
import itertools
import json
import math

LEVEL = 96.0


def rows(name):
    with open(f"/workspace/{name}.csv", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


stretches, catalogue = rows("stretches"), rows("catalogue")
nodes = {row["node"]: row for row in rows("nodes")}
upstream = {row["to"]: row for row in stretches}


def flow(node):
    """Return what passes into a node, in m³/s."""
    onward = sum(flow(row["to"]) for row in stretches if row["from"] == node)
    return float(nodes[node]["peak_demand_l_s"]) / 1000 + onward


def suits(stretch, pipe):
    speed = flow(stretch["to"]) / (math.pi * (float(pipe["bore_mm"]) / 2000) ** 2)
    ends = [end for end in (stretch["from"], stretch["to"]) if end != "R"]
    at_rest = max(LEVEL - float(nodes[end]["ground_m"]) for end in ends)
    bears = 1.15 * at_rest <= 10 * int(pipe["class"])
    return 0.5 <= speed <= 1.8 and bears and (not stretch["remark"] or pipe["class"] == "8")


def loss(stretch, pipe):
    factor = 10.67 * float(stretch["length_m"]) / 140**1.852
    return factor * flow(stretch["to"]) ** 1.852 / (float(pipe["bore_mm"]) / 1000) ** 4.87


choices = [
    [(pipe, loss(stretch, pipe)) for pipe in catalogue if suits(stretch, pipe)]
    for stretch in stretches
]
best = None
for design in itertools.product(*choices):
    chosen = {stretch["to"]: pipe for stretch, (pipe, _) in zip(stretches, design)}
    if len({pipe["nominal_mm"] for pipe in chosen.values()}) > 3:
        continue
    if any(
        int(pipe["nominal_mm"]) > int(chosen[upstream[node]["from"]]["nominal_mm"])
        for node, pipe in chosen.items()
        if upstream[node]["from"] != "R"
    ):
        continue
    heads = {"R": LEVEL}
    for stretch, (_, lost) in zip(stretches, design):
        heads[stretch["to"]] = heads[stretch["from"]] - lost
    margin = min(
        heads[name] - float(node["ground_m"]) - float(node["required_head_m"])
        for name, node in nodes.items()
    )
    cost = sum(
        int(stretch["length_m"]) * int(pipe["price_eur_m"])
        for stretch, (pipe, _) in zip(stretches, design)
    )
    if margin >= 0 and (best is None or cost < best[0]):
        best = (cost, margin, [pipe["id"] for pipe, _ in design])

cost, margin, pipes = best
answer = {"pipes": pipes, "cost_eur": cost, "least_margin_m": margin}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
