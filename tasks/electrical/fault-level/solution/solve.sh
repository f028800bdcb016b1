#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import json
from math import atan, cos, exp, sin, sqrt

# Everything in milliohms at 400 V; base impedance of the transformer is U^2/S = 160 mohm.
zq = 1.10 * 0.4**2 / 250 * 1000
angle = atan(1 / 0.10)
rq, xq = zq * cos(angle), zq * sin(angle)

base = 0.4**2 / 1.0 * 1000
rt_pu = 10.5 / 1000
xt_pu = sqrt(0.06**2 - rt_pu**2)
kt = 0.95 * 1.05 / (1 + 0.6 * xt_pu)
rt, xt = kt * rt_pu * base, kt * xt_pu * base

answer = {}
r, x = rq + rt, xq + xt
for board, dr, dx in (("msb", 0.0, 0.0), ("db", 60 * 0.193, 60 * 0.075)):
    r, x = r + dr, x + dx
    ik = 1.05 * 400 / sqrt(3) / sqrt(r * r + x * x)
    answer[f"ik_{board}_ka"] = ik
    answer[f"ip_{board}_ka"] = (1.02 + 0.98 * exp(-3 * r / x)) * sqrt(2) * ik
answer["db_breakers_adequate"] = answer["ik_db_ka"] <= 15
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
