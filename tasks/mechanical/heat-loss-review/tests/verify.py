"""Expected answer: the errors that were put into the sheet, and the results that are right."""

import csv
from pathlib import Path

from aec_verify import Field, Number, Verdict, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
with (INPUTS / "sheet.csv").open(encoding="utf-8", newline="") as stream:
    lines = {int(row["line"]) for row in csv.DictReader(stream)}

reading = {
    "wall": 0.29 * (64.0 - 14.4) * 30,
    "windows": 1.15 * 14.4 * 30,
    "roof": 0.23 * 96.0 * 30,
    "floor": 0.30 * 96.0 * 30 * 0.5,
    "ventilation": 0.34 * 1.0 * (96.0 * 3.2) * 30 * 0.3,
    "heating up": 10 * 96.0,
}
office = {
    "wall": 0.29 * (24.3 - 3.6) * 30,
    "window": 1.15 * 3.6 * 30,
    "ceiling": 0.20 * 20.0 * 30 * 0.8,
    "floor": 0.30 * 20.0 * 30 * 0.5,
    "partition": 1.50 * 10.8 * (20 - 15),
    "ventilation": 0.34 * 0.5 * (20.0 * 2.7) * 30,
    "heating up": 10 * 20.0,
}
store = {
    "wall": 0.29 * (27.0 - 2.1) * 25,
    "door": 1.85 * 2.1 * 25,
    "ceiling": 0.20 * 24.0 * 25 * 0.8,
    "floor": 0.30 * 24.0 * 25 * 0.5,
    "ventilation": 0.34 * 0.3 * (24.0 * 2.7) * 25,
}
RIGHT = {
    3: reading["windows"],  # no addition for thermal bridges
    6: 96.0 * 3.2,  # digits swapped
    13: office["ceiling"],  # an addition for thermal bridges towards the attic
    17: office["ventilation"],  # heat recovered where there is none to recover
    21: store["wall"],  # the temperature of the other rooms
    27: 0.0,  # an allowance without night set-back
    28: sum(store.values()),  # the partition's loss deducted in the cooler room
}
assert lines.issuperset(RIGHT)
total = sum(sum(room.values()) for room in (reading, office, store))


def is_line(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class WrongLines(Field):
    """The wrong lines; each false alarm cancels one that was found."""

    expected = list(RIGHT)

    def judge(self, value: object) -> Verdict:
        """Count what was found and what is a false alarm."""
        if not isinstance(value, list) or not all(is_line(one) for one in value):
            return Verdict(0.0, "is not a list of whole numbers")
        found = RIGHT.keys() & set(value)
        false = set(value) - RIGHT.keys()
        return judged(len(found), len(false))


class Corrections(Field):
    """Pairs of a wrong line and its right result; each for another line cancels one."""

    expected = [[line, value] for line, value in RIGHT.items()]
    tolerance = "results within 1"

    def judge(self, value: object) -> Verdict:
        """Count right pairs and those of lines that are not wrong."""
        if not isinstance(value, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and is_line(pair[0]) for pair in value
        ):
            return Verdict(0.0, "is not a list of pairs of line and result")
        given = dict(value)
        if len(given) < len(value):
            return Verdict(0.0, "corrects a line twice")
        found = [
            line
            for line, right in RIGHT.items()
            if line in given and Number(right, abs=1).judge(given[line]).score == 1
        ]
        return judged(len(found), len(given.keys() - RIGHT.keys()))


def judged(found: int, false: int) -> Verdict:
    score = max(0, found - false) / len(RIGHT)
    fault = f"{found} of {len(RIGHT)} are right, {false} false alarms"
    return Verdict(score, None if score == 1 else fault)


verify(
    {
        "wrong_lines": WrongLines(weight=0.42),
        "corrections": Corrections(weight=0.42),
        "total_w": Number(round(total), abs=2, weight=0.16),
    },
    output="/workspace/output.jsonl",
)
