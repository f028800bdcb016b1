"""Worked solution: Bishop's equation solved by bisection on F."""

import csv
import json
from math import cos, radians, sin, tan

with open("/workspace/soils.json") as stream:
    soils = json.load(stream)
with open("/workspace/slices.csv", newline="") as stream:
    rows = list(csv.DictReader(stream))

W, U, A, C, T, B = [], [], [], [], [], []
for row in rows:
    b = float(row["width_m"])
    weight = sum(
        b * float(row[f"height_{soil}_m"]) * soils[soil]["unit_weight_kn_m3"]
        for soil in ("upper", "lower")
    )
    base = soils[row["base_soil"]]
    B.append(b)
    W.append(weight)
    U.append(float(row["piezometric_height_m"]) * soils["water_unit_weight_kn_m3"])
    A.append(radians(float(row["base_angle_deg"])))
    C.append(base["cohesion_kpa"])
    T.append(tan(radians(base["friction_angle_deg"])))

n = range(len(rows))
driving = sum(W[i] * sin(A[i]) for i in n)
ordinary = (
    sum(C[i] * B[i] / cos(A[i]) + (W[i] * cos(A[i]) - U[i] * B[i] / cos(A[i])) * T[i] for i in n)
    / driving
)


def bishop(pressures):
    # The right-hand side of F = resisting/driving grows more slowly than F: bisect on the excess.
    def excess(f):
        resisting = sum(
            (C[i] * B[i] + (W[i] - pressures[i] * B[i]) * T[i])
            * f
            / (f * cos(A[i]) + sin(A[i]) * T[i])
            for i in n
        )
        return resisting / driving - f

    low, high = 0.5, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low


wet = bishop(U)
answer = {
    "driving_sum_kn_per_m": driving,
    "fos_ordinary": ordinary,
    "fos_bishop": wet,
    "fos_bishop_dry": bishop([0.0] * len(rows)),
    "acceptable": wet >= 1.50,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
