#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import json

Q, b, g = 24.0, 5.0, 9.81


def uniform(slope, n):
    # Manning rearranged to y = (Q n / (b sqrt S))^(3/5) * ((b + 2y)/b)^(2/5), a contraction.
    y = 1.0
    for _ in range(500):
        y = (Q * n / (b * slope**0.5)) ** 0.6 * ((b + 2 * y) / b) ** 0.4
    return y


y1 = uniform(0.060, 0.014)
v1 = Q / b / y1
# Conjugate depth from the momentum function, then the loss as a difference of specific energies.
froude_squared = v1**2 / (g * y1)
y2 = y1 * ((1 + 8 * froude_squared) ** 0.5 - 1) / 2
v2 = Q / b / y2
loss = (y1 + v1**2 / (2 * g)) - (y2 + v2**2 / (2 * g))
tailwater = uniform(0.0015, 0.022)
answer = {
    "depth_1_m": y1,
    "froude_1": froude_squared**0.5,
    "depth_2_m": y2,
    "energy_loss_m": loss,
    "power_kw": g * Q * loss,
    "tailwater_depth_m": tailwater,
    "swept_out": tailwater < y2,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
