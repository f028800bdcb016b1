#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import json
from math import ceil, sqrt

v = 80 / 3.6
# V^2 / (254 d) is v^2 / (2 g d) with the customary constant 254 for 2 * 9.81 * 3.6^2.
sight = v * 2.0 + 80**2 / 254 / 0.36
a = 3.2 + 2.4
c = 200 * (1.10 + 0.20 + 2 * sqrt(1.10 * 0.20))
curve_longer_than_sight = a * sight**2 / c
shortest = curve_longer_than_sight if curve_longer_than_sight >= sight else 2 * sight - c / a
adopted = ceil(shortest / 10) * 10

# In terms of the distance u back from the end of the curve, whose outgoing grade falls at 2.4 %.
u = adopted * 2.4 / a
end_chainage, end_level = 1250 + adopted / 2, 86.4 - 0.024 * adopted / 2
answer = {
    "stopping_sight_distance_m": sight,
    "min_length_m": shortest,
    "adopted_length_m": adopted,
    "high_point_chainage_m": end_chainage - u,
    "high_point_level_m": end_level + 0.024 * u - (a / 100) / (2 * adopted) * u * u,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
