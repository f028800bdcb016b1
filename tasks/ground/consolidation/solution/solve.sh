#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import json
from math import log, log10, pi

# Effective unit weights below the water table; stresses accumulate downwards.
top_of_clay = 1.5 * 18.0 + 1.5 * (19.8 - 9.81)
buoyant = 17.2 - 9.81
q = 3.2 * 20.0
stresses = [top_of_clay + buoyant * depth_in_clay for depth_in_clay in (1.0, 3.0, 5.0)]

settlement = 0.0
for s0 in stresses:
    sp = 1.25 * s0
    change_of_void_ratio = (0.06 * log(sp / s0) + 0.34 * log((s0 + q) / sp)) / log(10)
    settlement += 2000 * change_of_void_ratio / (1 + 1.05)


def factor(u):
    return pi / 4 * (u / 100) ** 2 if u <= 60 else 1.781 - 0.933 * log10(100 - u)


# Bisection for U at T = cv t / H^2, H = half of 6 m.
wanted = 1.8 * 3.0 / 3.0**2
low, high = 0.0, 99.999
for _ in range(100):
    middle = (low + high) / 2
    low, high = (middle, high) if factor(middle) < wanted else (low, middle)

remaining = settlement * (100 - low) / 100
answer = {
    "stress_mid_clay_kpa": stresses[1],
    "settlement_mm": settlement,
    "degree_percent": low,
    "t90_years": factor(90) * 3.0**2 / 1.8,
    "remaining_mm": remaining,
    "acceptable": remaining <= 50,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
