#!/usr/bin/env bash
set -eu
cd /workspace
python3 - <<'PYTHON'
import csv
import json
from decimal import ROUND_CEILING, Decimal

# Decimals keep the roundings up exact.
with open("occupancy.json") as stream:
    occupancy = json.load(stream, parse_float=Decimal, parse_int=Decimal)
total = 0
with open("rooms.csv", newline="") as stream:
    for room in csv.DictReader(stream):
        if room["use"] in occupancy["no_own_occupants"]:
            continue
        people = Decimal(room["area_m2"]) / occupancy["m2_per_person"][room["use"]]
        total += int(people.to_integral_value(ROUND_CEILING))

exits = 1 + sum(total > limit for limit in (50, 300, 600))


def each(per_person, least):
    tens = (total * Decimal(per_person) / (exits - 1) / 10).to_integral_value(ROUND_CEILING)
    return max(int(tens) * 10, least)


door = each("5.0", 850)
answer = {
    "total_occupants": total,
    "exits_required": exits,
    "door_width_mm": door,
    "stair_width_mm": each("7.6", 1100),
    "flow_time_s": total / ((exits - 1) * 1.3 * (door - 300) / 1000),
}
with open("output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
