"""Build programmes activity by activity, and drop those that cannot become the cheapest."""

import csv
import json

CLOSURES = [(22, 28), (33, 40)]
DEADLINE, CRANE_DAY, SITE_DAY = 42, 1.6, 2.2


def read(name):
    with open(f"/workspace/{name}", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


activities = {row["activity"]: row for row in read("activities.csv")}
modes = {}
for row in read("modes.csv"):
    mode = (row["mode"], int(row["days"]), float(row["cost_k"]), row["at_night"] == "yes")
    modes.setdefault(row["activity"], []).append(mode)

# Each activity comes after all that it waits for; the drainage goes into a gap of the crane.
order = "ABCDEFGHJIK"
cheapest_rest = {
    at: sum(min(mode[2] for mode in modes[name]) for name in order[at:])
    for at in range(len(order) + 1)
}
fastest = {name: min(mode[1] for mode in modes[name]) for name in order}
best = (float("inf"), None)


def days_to_end(name):
    """Return the fewest days from the start of an activity to the end of the works."""
    after = [days_to_end(other) for other in order if name in activities[other]["after"].split()]
    return fastest[name] + max(after, default=0)


latest = {name: DEADLINE - days_to_end(name) for name in order}
tail = {name: days_to_end(name) - fastest[name] for name in order}


def price(plan):
    """Return the cost of a programme, or the least that one that has begun so can come to."""
    crane = [entry for name, entry in plan.items() if activities[name]["crane"] == "yes"]
    hired = max((start + mode[1] for mode, start in crane), default=0)
    hired -= min((start for _, start in crane), default=0)
    end = max((start + mode[1] + tail[name] for name, (mode, start) in plan.items()), default=0)
    work = sum(mode[2] for mode, _ in plan.values()) + cheapest_rest[len(plan)]
    return work + CRANE_DAY * hired + SITE_DAY * end


def is_free(name, start, end, plan):
    if name == "G" and not any(first <= start and end <= last for first, last in CLOSURES):
        return False
    if activities[name]["crane"] == "no":
        return True
    return all(
        end <= begun or begun + mode[1] <= start
        for other, (mode, begun) in plan.items()
        if activities[other]["crane"] == "yes"
    )


def extend(plan, nights):
    global best
    if price(plan) >= best[0] - 1e-9:
        return
    if len(plan) == len(order):
        best = (price(plan), plan)
        return
    name = order[len(plan)]
    ready = max((plan[o][1] + plan[o][0][1] for o in activities[name]["after"].split()), default=0)
    for mode in modes[name]:
        if nights + mode[3] > 1:
            continue
        for start in range(ready, latest[name] + 1):
            if start + mode[1] <= DEADLINE and is_free(name, start, start + mode[1], plan):
                extend({**plan, name: (mode, start)}, nights + mode[3])


extend({}, 0)
cost, plan = best
answer = {
    "programme": {name: {"mode": plan[name][0][0], "start": plan[name][1]} for name in activities},
    "end_day": max(start + mode[1] for mode, start in plan.values()),
    "cost_k": round(cost, 2),
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
