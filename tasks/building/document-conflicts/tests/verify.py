"""Expected answer: the statement that governs each item, or that it has to be reported."""

import csv
from pathlib import Path

from aec_verify import Field, Number, Unusable, Verdict, read_answer, verify

OUTPUT = "/workspace/output.jsonl"
REPORT = "report"
# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
# The governing statement of each item that the contract settles, and its value.
SETTLED = {
    "item_01": (75, "particular-specification.md", "Screed in classrooms: 75 mm"),
    "item_02": (950, "drawings.md", "Door D07: clear width 950 mm"),
    "item_04": (200, "addenda.md", "thickness of the insulation 200 mm"),
    "item_05": (900, "particular-specification.md", "hangers at 900 mm"),
    "item_07": (980, "drawings.md", "Stair 2: handrail at 0.98 m"),
    "item_08": (7.5, "particular-specification.md", "archive: 7.5 kN/m²"),
    "item_09": (3, "instructions.csv", "three coats of paint"),
    "item_11": (30, "particular-specification.md", "Door D12: fire resistance 30 min"),
    "item_12": (350, "drawings.md", "Parapet 0.35 m high"),
    "item_14": (150, "particular-specification.md", "150 mm wide, zinc"),
    "item_16": (600, "standard-specification.md", "garden walls 600 mm below ground"),
}
# Agreement on a matter of clause 2.6 counts only if its disagreement was seen too.
TOGETHER = {"item_08": "item_13", "item_11": "item_03"}

with (INPUTS / "items.csv").open(encoding="utf-8", newline="") as stream:
    items = [row["item"] for row in csv.DictReader(stream)]
for item, (_, document, statement) in SETTLED.items():
    assert statement in (INPUTS / document).read_text(encoding="utf-8"), item


def is_report(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() == REPORT


class Agreement(Number):
    """A value on which the documents agree; counts only if the other item was reported."""

    def __init__(self, value: float, other: str, **options: float) -> None:
        super().__init__(value, **options)
        self.other = other

    def judge(self, value: object) -> Verdict:
        """Compare."""
        if self.other not in reported:
            return Verdict(0.0, f"counts only with {self.other}")
        return super().judge(value)


class Reported(Field):
    """An item to report; each report of an item that is settled cancels one right report."""

    expected = REPORT

    def __init__(self, share: float, **options: float) -> None:
        super().__init__(**options)
        self.share = share

    def judge(self, value: object) -> Verdict:
        """Compare."""
        if not is_report(value):
            return Verdict(0.0, "has to be reported")
        return Verdict(self.share, None if self.share == 1 else "other reports are wrong")


try:
    answer = read_answer(OUTPUT)
except Unusable:
    answer = {}
reported = {item for item in items if is_report(answer.get(item))}
right = len(reported - SETTLED.keys())
share = max(0.0, (right - len(reported & SETTLED.keys())) / right) if right else 0.0



def field(item: str, weight: float) -> Field:
    if item not in SETTLED:
        return Reported(share, weight=weight)
    value = SETTLED[item][0]
    if item in TOGETHER:
        return Agreement(value, TOGETHER[item], weight=weight)
    return Number(value, weight=weight)


verify({item: field(item, 1 / len(items)) for item in items}, output=OUTPUT)
