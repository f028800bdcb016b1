#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import json
import subprocess
from math import pi, sqrt


def friction(velocity, diameter):
    request = {"reynolds": velocity * diameter / 0.658e-6, "relative_roughness": 0.15e-3 / diameter}
    reply = subprocess.run(
        ["python3", "/workspace/tools/friction_factor.py"],
        input=json.dumps(request),
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(reply.stdout)["friction_factor"]


def coefficient(q, length, diameter, minor):
    """Loss per (m3/s)^2, with the friction factor at flow q."""
    velocity = q / (pi * diameter**2 / 4)
    losses = friction(velocity, diameter) * length / diameter + minor
    return losses * 8 / (pi**2 * diameter**4 * 9.81)


# Freeze the friction factors, solve 46 - 4800 q^2 = 18 + (ks + kd) q^2 for q, and repeat.
q = 0.05
for _ in range(8):
    ks = coefficient(q, 8.0, 0.250, 2.8)
    kd = coefficient(q, 420.0, 0.200, 6.5)
    q = sqrt((46 - 18.0) / (4800 + ks + kd))

head = 18.0 + (ks + kd) * q * q
flow = q * 1000
power = 992.2 * 9.81 * q * head / (flow * (0.0265 - 0.00022 * flow)) / 1000
available = (89.9 - 7.38) * 1000 / 992.2 / 9.81 - 3.4 - ks * q * q
margin = available - 1.6 - 0.0006 * flow**2
answer = {
    "flow_l_s": flow,
    "head_m": head,
    "shaft_power_kw": power,
    "npsh_available_m": available,
    "npsh_margin_m": margin,
    "suction_safe": margin >= 0.5,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
