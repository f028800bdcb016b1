"""Look up each datum by the rules, and name the one that the check needs and does not find."""

import csv
import json
import math


class Missing(Exception):
    """A datum that the documents do not give."""


def rows(name):
    with open(f"/workspace/{name}", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


holes = {row["borehole"]: row for row in rows("boreholes.csv")}
tests = [row for row in rows("laboratory.csv") if row["remark"] != "sample disturbed"]
footings = {row["footing"]: row for row in rows("footings.csv")}


def results(hole, test):
    return [
        float(row["result"]) for row in tests if (row["borehole"], row["test"]) == (hole, test)
    ]


def given(text, datum):
    if not text:
        raise Missing(datum)
    return float(text)


def depth(footing):
    if footing["note"].startswith("same depth as "):
        return depth(footings[footing["note"].split()[-1]])
    return given(footing["depth_m"], "depth")


def unit_weight(hole):
    dry, water = results(hole, "dry unit weight"), results(hole, "water content")
    if not holes[hole]["unit_weight_kn_m3"] and dry and water:
        return dry[0] * (1 + water[0] / 100)
    return given(holes[hole]["unit_weight_kn_m3"], "unit_weight")


def cohesion(hole):
    if triaxial := results(hole, "triaxial"):
        return min(triaxial)
    if vane := results(hole, "vane"):
        return 0.85 * min(vane)
    raise Missing("cohesion")


def friction_angle(hole):
    if not (boxes := results(hole, "shear box")):
        raise Missing("friction_angle")
    return math.radians(min(boxes))


def stands_within(hole, reach):
    """Return whether ground water stands above this depth."""
    water = holes[hole]["water_m"]
    if water == "none":
        if float(holes[hole]["end_m"]) < reach:
            raise Missing("water_level")
        return False
    return given(water, "water_level") < reach


def utilisation(footing):
    hole = footing["borehole"]
    b = given(footing["width_m"], "width")
    ratio = b / float(footing["length_m"]) if footing["length_m"] else 1.0
    d = depth(footing)
    cover = d * unit_weight(hole) if d else 0.0
    if holes[hole]["soil"] == "clay":
        q = 5.14 * cohesion(hole) * (1 + 0.2 * ratio) + cover
    else:
        sine, tangent = math.sin(friction_angle(hole)), math.tan(friction_angle(hole))
        nq = (1 + sine) / (1 - sine) * math.exp(math.pi * tangent)
        below = unit_weight(hole) - (10 if stands_within(hole, d + b) else 0)
        q = cover * nq * (1 + ratio * sine)
        q += below * b * (nq - 1) * tangent * (1 - 0.3 * ratio)
    return given(footing["load_kn"], "load") * 1.4 * ratio / (q * b * b)


answer = {}
for name, footing in footings.items():
    try:
        answer[name] = utilisation(footing)
    except Missing as datum:
        answer[name] = str(datum)
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
