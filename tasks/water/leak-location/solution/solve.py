"""Plan the tests that take the fewest hours at worst, and make one after the other."""

import csv
import json
import subprocess
import sys

with open("/workspace/valves.csv", encoding="utf-8", newline="") as stream:
    hours = {int(row["valve"]): int(row["hours"]) for row in csv.DictReader(stream)}

# Shortest stretches first: the worst case of a stretch rests on those of its parts.
sections = len(hours) + 1
worst = {(section, section): 0 for section in range(1, sections + 1)}
best = {}
for length in range(1, sections):
    for first in range(1, sections + 1 - length):
        last = first + length
        worst[first, last], best[first, last] = min(
            (hours[valve] + max(worst[first, valve], worst[valve + 1, last]), valve)
            for valve in range(first, last)
        )

tests = []
first, last = 1, sections
while first < last:
    valve = best[first, last]
    tests.append(valve)
    done = subprocess.run(
        [sys.executable, "/workspace/tools/pressure_test.py"],
        input=json.dumps({"valves": tests}),
        capture_output=True,
        text=True,
        check=True,
    )
    falls = json.loads(done.stdout)["results"][-1] == "falls"
    first, last = (first, valve) if falls else (valve + 1, last)

answer = {
    "tests": tests,
    "leaking_section": first,
    "crew_hours": sum(hours[valve] for valve in tests),
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
