"""Try the sizes of each circuit from the smallest up, with the factors that apply to each."""

import csv
import json


def rows(name):
    """Read a table; marks of notes in its head are left out."""
    with open(f"/workspace/{name}.csv", encoding="utf-8", newline="") as stream:
        head, *body = csv.reader(stream)
    names = [column.split(" (")[0] for column in head]
    return [dict(zip(names, line)) for line in body]


def interpolated(name, key, column, at):
    points = sorted((float(row[key]), float(row[column])) for row in rows(name) if row[column])
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x0 <= at <= x1:
            return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    raise ValueError(f"{name}: {at} is outside the table")


def counted(circuit):
    return sum(
        row["group"] == circuit["group"]
        and (row["cable"] == circuit["circuit"] or float(row["load_percent"]) > 30)
        for row in rows("groups")
    )


def grouping(circuit, laid):
    if laid == "buried":
        gap = min(
            float(row["clear_distance_m"])
            for row in rows("groups")
            if row["group"] == circuit["group"]
        )
        laid = "buried spaced" if gap >= 0.20 else "buried touching"
    number = counted(circuit)
    column = {"wall": "tray", "duct": "buried touching"}.get(laid, laid)
    return next(float(row[column]) for row in rows("grouping") if int(row["cables"]) >= number)


def factors(circuit, laid, size):
    in_ground = laid in ("buried", "duct")
    temperature = float(circuit["temperature_c"])
    yield interpolated("ambient", "temperature_c", "ground" if in_ground else "air", temperature)
    yield grouping(circuit, laid)
    if float(circuit["third_harmonic_percent"]) > 15:
        yield 0.87
    if laid == "wall" and size > 16:
        yield 0.95
    if in_ground:
        resistivity = float(circuit["resistivity_k_m_w"])
        soil = interpolated("resistivity", "resistivity_k_m_w", "factor", resistivity)
        yield 1 - (1 - soil) / 2 if laid == "duct" else soil
        column = "up to 120 mm2" if size <= 120 else "above 120 mm2"
        yield interpolated("depth", "depth_m", column, float(circuit["depth_m"]))
    if laid == "duct":
        yield 0.92


answer = {}
for circuit in rows("circuits"):
    laid = circuit["laid"].split(" (")[0]
    column = {"wall": "tray_a", "duct": "buried_a"}.get(laid, f"{laid}_a")
    protected = circuit["overload_protection"] == "yes"
    needed = float(circuit["device_a"] if protected else circuit["design_current_a"])
    for row in rows("ratings"):
        factor = 1.0
        for one in factors(circuit, laid, int(row["size_mm2"])):
            factor *= one
        if factor * float(row[column]) >= needed:
            break
    answer[f"{circuit['circuit']}_factor"] = factor
    answer[f"{circuit['circuit']}_size_mm2"] = int(row["size_mm2"])
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
