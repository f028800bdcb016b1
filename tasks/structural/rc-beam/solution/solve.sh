#!/usr/bin/env bash
set -eu
python3 - <<'PYTHON'
import json
from math import ceil, floor, pi, sqrt

fcd, fyd = 0.85 * 30 / 1.5, 500 / 1.15
b, d = 300.0, 600 - 35 - 8 - 12.5
w = 1.35 * 18 + 1.5 * 18
M = w * 7.5**2 / 8

# Lever arm by iteration on the steel area: z = d - As fyd / (2 b fcd)  (0.8 x = As fyd / (b fcd)).
As = M * 1e6 / (fyd * 0.9 * d)
for _ in range(200):
    As = M * 1e6 / (fyd * (d - As * fyd / (2 * b * fcd)))
fctm = 0.30 * 30 ** (2 / 3)
As = max(As, 0.26 * fctm / 500 * b * d, 0.0013 * b * d)
bars = ceil(As / (pi * 25**2 / 4))
prov = bars * pi * 25**2 / 4
MRd = prov * fyd * (d - prov * fyd / (2 * b * fcd))

VEd = w * 7.5 / 2 - w * (0.150 + d / 1000)
k = min(2.0, 1 + (200 / d) ** 0.5)
rho = min(0.02, prov / b / d)
stress = max(0.12 * k * (100 * rho * 30) ** (1 / 3), 0.035 * k**1.5 * 30**0.5)
z = 0.9 * d
# 1 / (cot + tan) = sin cos = cot / (1 + cot^2)
VRdmax = b * z * 0.6 * (1 - 30 / 250) * fcd * 2.5 / (1 + 2.5**2)
legs = 2 * pi * 8**2 / 4
needed = max(VEd * 1000 / (z * fyd * 2.5), 0.08 * sqrt(30) / 500 * b)
spacing = floor(min(legs / needed, 0.75 * d) / 25) * 25

answer = {
    "m_ed_knm": M,
    "as_required_mm2": As,
    "bar_count": bars,
    "m_rd_knm": MRd / 1e6,
    "v_ed_kn": VEd,
    "v_rd_c_kn": stress * b * d / 1000,
    "v_rd_max_kn": VRdmax / 1000,
    "link_spacing_mm": spacing,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
