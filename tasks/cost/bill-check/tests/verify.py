"""Expected answer: the bill measured and priced again from dimensions, rules and rates."""

import csv
import math
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

from aec_verify import Entries, Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
BASE_DATE = "2026-05-12"
LARGEST_KEPT = {"CO": Fraction("0.10"), "FO": Fraction(1), "BL": Fraction("0.5")}
LARGEST_KEPT["PL"] = LARGEST_KEPT["BL"]
DECIMALS = {"t": 3, "nr": 0}


def read(name: str) -> list[dict[str, str]]:
    with (INPUTS / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def rounded(value: Fraction, decimals: int) -> Fraction:
    """Round a half up."""
    return Fraction(math.floor(value * 10**decimals + Fraction(1, 2)), 10**decimals)


def deduction(row: dict[str, str], trade: str, thickness: Fraction) -> Fraction:
    """Return what the openings of a row take away."""
    total = Fraction(0)
    for opening in filter(None, row["openings"].split("; ")):
        count, width, height = map(Fraction, opening.split("x"))
        each = width * height * thickness
        if each > LARGEST_KEPT[trade]:
            total += count * each
    return total


def measured(row: dict[str, str], item: dict[str, str]) -> Fraction:
    """Return the quantity of one row of dimensions."""
    trade, unit, times = item["code"][:2], item["unit"], Fraction(row["times"])
    length, width, height = (Fraction(row[key] or 0) for key in ("length_m", "width_m", "height_m"))
    if unit == "nr":
        return times
    if unit == "m":
        return times * length
    if unit == "t":
        return times * length * Fraction(row["kg_per_m"]) / 1000
    if unit == "m3":
        thickness = min(width, height)
        return times * length * width * height - deduction(row, trade, thickness)
    both = "vertical faces" in item["description"] and "one face" not in row["remark"]
    faces = 2 if both else 1
    return faces * (times * length * (width or height) - deduction(row, trade, Fraction(1)))


dimensions = defaultdict(list)
for row in read("takeoff.csv"):
    dimensions[row["item"]].append(row)
rates = {
    row["code"]: Fraction(row["rate"])
    for row in sorted(read("rates.csv"), key=lambda row: row["valid_from"])
    if row["valid_from"] <= BASE_DATE
}

amounts, wrong = {}, {}
for item in read("bill.csv"):
    name = item["item"]
    quantity = sum((measured(row, item) for row in dimensions[name]), Fraction(0))
    quantity = rounded(quantity, DECIMALS.get(item["unit"], 2))
    amounts[name] = rounded(quantity * rates[item["code"]], 2)
    if amounts[name] != Fraction(item["amount"]):
        wrong[name] = amounts[name]
assert len(wrong) == 5

verify(
    {
        "errors": Entries(
            {name: Number(float(amount), abs=0.02) for name, amount in wrong.items()},
            wrong=0.5,
            extra=-1,
            weight=0.8,
        ),
        "corrected_total": Number(
            float(sum(amounts.values())), abs=0.15, weight=0.2, needs="errors"
        ),
    },
    output="/workspace/output.jsonl",
)
