"""Expected answer: each stair judged for every way in which unrecorded facts could turn out."""

import csv
import itertools
import json
from pathlib import Path

from aec_verify import Choice, Entries, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
blocks = json.loads((INPUTS / "blocks.json").read_text(encoding="utf-8"))
with (INPUTS / "stairs.csv").open(encoding="utf-8", newline="") as stream:
    stairs = list(csv.DictReader(stream))

VERDICTS = ("complies", "fails", "undeterminable")
CLAUSES = tuple(f"7.{number}" for number in range(2, 9))
# The ends of what an unrecorded fact may be; each rule changes its answer once between them.
EXTREMES = {
    "altered": ("yes", "no"),
    "change_of_use": ("yes", "no"),
    "headroom_mm": ("0", "9999"),
    "occupants": ("1", "9999"),
}
LIMITS = {  # rise, going, width, headroom
    "common": (180, 280, 1000, 2000),
    "dwelling": (200, 250, 800, 2000),
    "plant": (220, 180, 600, 1900),
}


def failed_clauses(stair: dict[str, str], sprinklered: bool) -> set[str]:
    """Return the clauses that a stair with every fact recorded does not meet."""
    number = {key: int(stair[key]) for key in stair if key.endswith("_mm")}
    occupants, handrails = int(stair["occupants"]), int(stair["handrails"])
    kind = "common" if stair["use"] == "plant" and occupants > 5 else stair["use"]
    most_rise, least_going, least_width, least_headroom = LIMITS[kind]
    rise, going, width = number["rise_mm"], number["going_mm"], number["clear_width_mm"]
    common = kind == "common"
    if common:
        least_width = max(least_width, occupants * (5 if sprinklered else 7))
    failed = {
        "7.2": rise > most_rise,
        "7.3": going < least_going,
        "7.4": kind != "plant" and not 550 <= 2 * rise + going <= 700,
        "7.5": width < least_width,
        "7.6": number["headroom_mm"] < least_headroom,
        "7.7": common and int(stair["risers_in_flight"]) > 16,
        "7.8": handrails < (2 if common and (width >= 1100 or occupants > 50) else 1),
    }
    kept = stair["status"] == "existing" and stair["altered"] == "no"
    if kept and stair["change_of_use"] == "no" and rise <= 190 and going >= 250:
        failed.update(dict.fromkeys(("7.2", "7.3", "7.4", "7.7"), False))
    return {clause for clause, fails in failed.items() if fails}


def judge(stair: dict[str, str]) -> tuple[str, str | None]:
    """Return the verdict and the clause that decides, if any."""
    sprinklered = blocks[stair["block"]]["sprinklered_throughout"]
    blank = [key for key in EXTREMES if not stair[key]]
    outcomes = [
        failed_clauses({**stair, **dict(zip(blank, values))}, here)
        for values in itertools.product(*(EXTREMES[key] for key in blank))
        for here in ((True, False) if sprinklered is None else (sprinklered,))
    ]
    if not any(outcomes):
        return "complies", None
    always = set.intersection(*outcomes)
    (clause,) = always if all(outcomes) else set.union(*outcomes)
    return "fails" if all(outcomes) else "undeterminable", clause


judged = {stair["stair"]: judge(stair) for stair in stairs}

verify(
    {
        "verdicts": Entries(
            {stair: Choice(verdict, VERDICTS) for stair, (verdict, _) in judged.items()},
            wrong=-1,
            weight=0.6,
        ),
        "clauses": Entries(
            {stair: Choice(clause, CLAUSES) for stair, (_, clause) in judged.items() if clause},
            extra=-1,
            weight=0.4,
        ),
    },
    output="/workspace/output.jsonl",
)
