"""Try every combination that the rules allow, and keep the worst for each check."""

import csv
import itertools
import json

BLOCK, FRICTION, LEVER = 95.0, 0.45, 0.60
PSI = {  # on a site above 700 m
    "maintenance": (0.0, 0.0, 0.0),
    "snow": (0.7, 0.5, 0.2),
    "wind": (0.6, 0.2, 0.0),
    "thermal": (0.6, 0.5, 0.0),
}

with open("/workspace/actions.csv", newline="") as stream:
    rows = list(csv.DictReader(stream))
effects = {row["id"]: tuple(float(row[name]) for name in ("n_kn", "v_kn", "m_knm")) for row in rows}
kinds = {row["id"]: row["kind"] for row in rows}
turns = {row["id"]: (1, -1) if row["direction"] == "either" else (1,) for row in rows}
variable = [name for name in effects if kinds[name] in PSI]


def companies():
    """Yield the sets of variable actions that may act together."""
    for size in range(len(variable) + 1):
        for chosen in itertools.combinations(variable, size):
            of = [kinds[name] for name in chosen]
            if of.count("wind") > 1 or of.count("snow") > 1:
                continue
            if "maintenance" in of and {"wind", "snow"} & set(of):
                continue
            if {"WU", "SD"} <= set(chosen):
                continue
            yield chosen


def combinations(relief):
    """Yield the leading action and the factors of each combination."""
    for chosen in companies():
        for lead in chosen:
            factors = {
                name: 1.5 if name == lead else 1.5 * PSI[kinds[name]][0] for name in chosen
            }
            either = (1.35, relief)
            for own, panels, block in itertools.product(either, (1.35, 0.0), either):
                yield lead, {"G1": own, "G2": panels, **factors}, block
        if not any(kinds[name] == "thermal" for name in chosen):
            factors = {name: PSI[kinds[name]][2] for name in chosen}
            for panels in (1.0, 0.0):
                yield "E", {"G1": 1.0, "G2": panels, "E": 1.0, **factors}, 1.0
        for main in (*chosen, None):
            factors = {name: PSI[kinds[name]][1 if name == main else 2] for name in chosen}
            for panels in (1.0, 0.0):
                yield "A", {"G1": 1.0, "G2": panels, "A": 1.0, **factors}, 1.0


def turned(factors):
    """Yield axial force, shear and moment for each direction of the actions that may turn."""
    names = list(factors)
    for signs in itertools.product(*(turns[name] for name in names)):
        yield tuple(
            sum(
                factors[name] * effects[name][at] * (sign if at else 1)
                for name, sign in zip(names, signs)
            )
            for at in range(3)
        )


def worst(effect, relief):
    return max(
        (effect(*forces, block * BLOCK), lead)
        for lead, factors, block in combinations(relief)
        for forces in turned(factors)
    )


answer = {}
for check, field, relief, effect in (
    ("compression", "compression_kn", 1.0, lambda n, v, m, block: n),
    ("uplift", "uplift_kn", 0.9, lambda n, v, m, block: -n),
    ("moment", "moment_knm", 1.0, lambda n, v, m, block: abs(m)),
    ("bolt", "bolt_kn", 0.9, lambda n, v, m, block: abs(m) / LEVER - n / 2),
    ("sliding", "sliding_ratio", 0.9, lambda n, v, m, block: abs(v) / (FRICTION * (n + block))),
):
    value, answer[f"{check}_leading"] = worst(effect, relief)
    answer[field] = -value if check == "uplift" else value

with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
