"""Worked solution: volumes by intervals, then cumulative sums."""

import csv
import json
from itertools import accumulate
from math import ceil

with open("/workspace/material.json") as stream:
    material = json.load(stream)
with open("/workspace/sections.csv", newline="") as stream:
    rows = list(csv.reader(stream))[1:]
chainage, cut_area, fill_area = ([float(row[column]) for row in rows] for column in range(3))


def volumes(areas):
    result = []
    for k in range(len(areas) - 1):
        smaller, larger = sorted(areas[k : k + 2])
        tapers_out = smaller == 0 < larger
        mean = larger / 3 if tapers_out else (smaller + larger) / 2
        result.append(mean * (chainage[k + 1] - chainage[k]))
    return result


cut, fill = volumes(cut_area), volumes(fill_area)
shrink = material["compaction_factor"]
haul = list(accumulate((c - f / shrink for c, f in zip(cut, fill)), initial=0.0))
balance = haul[-1]
peak_at = max(range(len(haul)), key=haul.__getitem__)
answer = {
    "cut_bank_m3": sum(cut),
    "fill_compacted_m3": sum(fill),
    "balance_bank_m3": balance,
    "peak_ordinate_m3": haul[peak_at],
    "peak_chainage_m": chainage[peak_at],
    "truck_loads": ceil(
        abs(balance) * material["bulking_factor"] / material["truck_capacity_loose_m3"]
    ),
}
with open("/workspace/volumes.json", "w", encoding="utf-8") as output:
    json.dump(answer, output)
