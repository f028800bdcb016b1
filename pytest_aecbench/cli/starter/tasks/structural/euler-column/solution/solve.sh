#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import json
import math

with open("/workspace/column.json", encoding="utf-8") as source:
    column = json.load(source)
outer = column["width_mm"]
inner = outer - 2 * column["thickness_mm"]
# (B^4 - b^4) / 12 over B^2 - b^2 leaves (B^2 + b^2) / 12 for the radius of gyration squared.
gyration = math.sqrt((outer**2 + inner**2) / 12)
second_moment = gyration**2 * (outer**2 - inner**2)
length = column["effective_length_factor"] * column["length_m"] * 1000
critical = math.pi**2 * column["youngs_modulus_mpa"] * second_moment / length**2 / 1000
answer = {
    "second_moment_mm4": second_moment,
    "slenderness": length / gyration,
    "critical_load_kn": critical,
    "adequate": critical >= column["required_margin"] * column["axial_load_kn"],
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
