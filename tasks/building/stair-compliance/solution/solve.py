"""Judge each stair clause by clause; a clause is met, not met, or unknown (None)."""

import csv
import json

with open("/workspace/blocks.json", encoding="utf-8") as stream:
    blocks = json.load(stream)
with open("/workspace/stairs.csv", encoding="utf-8", newline="") as stream:
    stairs = list(csv.DictReader(stream))


def number(text):
    return int(text) if text else None


def at_least(value, least):
    """Compare numbers that may be unknown."""
    return None if value is None or least is None else value >= least


def exempt(stair):
    """Say whether 7.9 applies, or None where that is not known."""
    if stair["status"] != "existing" or stair["altered"] == "yes":
        return False
    if int(stair["rise_mm"]) > 190 or int(stair["going_mm"]) < 250:
        return False
    if stair["change_of_use"] == "yes":
        return False
    return True if stair["altered"] and stair["change_of_use"] else None


def review(stair):
    rise, going = int(stair["rise_mm"]), int(stair["going_mm"])
    width, headroom = int(stair["clear_width_mm"]), number(stair["headroom_mm"])
    persons, rails = number(stair["occupants"]), int(stair["handrails"])
    kind = stair["use"]
    if kind == "plant" and persons > 5:
        kind = "common"
    sprinklered = blocks[stair["block"]]["sprinklered_throughout"]

    met = {
        "7.2": rise <= {"common": 180, "dwelling": 200, "plant": 220}[kind],
        "7.3": going >= {"common": 280, "dwelling": 250, "plant": 180}[kind],
        "7.4": kind == "plant" or 550 <= 2 * rise + going <= 700,
        "7.5": width >= {"common": 1000, "dwelling": 800, "plant": 600}[kind],
        "7.6": at_least(headroom, 1900 if kind == "plant" else 2000),
        "7.7": kind != "common" or int(stair["risers_in_flight"]) <= 16,
        "7.8": rails >= 1,
    }
    if kind == "common" and met["7.5"]:
        shares = {True: (5,), False: (7,), None: (5, 7)}[sprinklered]
        wide = {at_least(width, None if persons is None else persons * share) for share in shares}
        met["7.5"] = wide.pop() if len(wide) == 1 else None
    if kind == "common" and rails < 2:
        crowded = None if persons is None else persons > 50
        met["7.8"] = False if width >= 1100 or crowded else (None if crowded is None else True)

    waived = exempt(stair)
    for clause in ("7.2", "7.3", "7.4", "7.7"):
        if not met[clause] and waived is not False:
            met[clause] = True if waived else None

    for verdict, state in (("fails", False), ("undeterminable", None)):
        found = [clause for clause, value in met.items() if value is state]
        if found:
            return verdict, found[0]
    return "complies", None


results = {stair["stair"]: review(stair) for stair in stairs}
answer = {
    "verdicts": {stair: verdict for stair, (verdict, _) in results.items()},
    "clauses": {stair: clause for stair, (_, clause) in results.items() if clause},
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
