#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import json

# N and mm throughout. Statics on the left half, then deflection by the unit-load integral
# delta = 2 * integral over half the span of M(x) * (x/2) dx / EI; Simpson's rule is exact here.
L, E, I = 7200.0, 200e3, 121e6


def half_span(w, p):
    reaction = (w * L + p) / 2
    return reaction, lambda x: reaction * x - w * x * x / 2


shear, moment_at = half_span(1.2 * 6.5 + 1.5 * 9.0, 1.5 * 20e3)
moment = moment_at(L / 2)
utilisation = moment / (0.9 * 300 * 774e3)

_, service_moment = half_span(6.5 + 0.7 * 9.0, 0.7 * 20e3)
steps = 200
h = L / 2 / steps
total = 0.0
for k in range(steps + 1):
    x = k * h
    total += (1 if k in (0, steps) else 4 if k % 2 else 2) * service_moment(x) * x / 2
deflection = 2 * total * h / 3 / (E * I)

answer = {
    "design_moment_knm": moment / 1e6,
    "design_shear_kn": shear / 1e3,
    "moment_utilisation": utilisation,
    "deflection_mm": deflection,
    "adequate": utilisation <= 1 and deflection <= L / 250,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
