#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import cmath
import json
import math

# Work per phase: the drop is the part of I*Z in phase with the voltage, times sqrt(3) line to line.
angle = math.acos(0.85)
current = cmath.rect(85.0, -angle)
per_km = math.sqrt(3) * (current * complex(0.506, 0.0865)).real
drop = per_km * 0.140
allowed = 400.0 * 0.025
answer = {
    "voltage_drop_v": drop,
    "voltage_drop_percent": drop / 400.0 * 100,
    "max_length_m": allowed / per_km * 1000,
    "compliance": drop <= allowed,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
