"""Check each item of the bill in three steps: quantity, rate, amount."""

import csv
import json
from decimal import ROUND_HALF_UP, Decimal


def read(name):
    with open(f"/workspace/{name}", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def half_up(value, places):
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def openings(text):
    """Yield number and size of each kind of opening."""
    for part in text.replace(" ", "").split(";") if text else ():
        count, wide, high = (Decimal(number) for number in part.split("x"))
        yield count, wide * high


def concrete(times, length, width, height, holes):
    volume = times * length * width * height
    face = length * max(width, height)
    depth = length * width * height / face
    return volume - sum(n * size * depth for n, size in holes if size * depth > Decimal("0.10"))


def area(times, length, other, holes, limit):
    return times * length * other - sum(n * size for n, size in holes if size > limit)


def quantity(item, rows):
    total = Decimal(0)
    for row in rows:
        times = Decimal(row["times"])
        length, width, height, mass = (
            Decimal(row[key] or 0) for key in ("length_m", "width_m", "height_m", "kg_per_m")
        )
        holes = list(openings(row["openings"]))
        trade = item["code"][:2]
        if item["unit"] == "nr":
            total += times
        elif item["unit"] == "m":
            total += times * length
        elif trade == "RE":
            total += times * length * mass / 1000
        elif trade == "EX":
            total += times * length * width * height
        elif trade == "CO":
            total += concrete(times, length, width, height, holes)
        elif trade == "FO":
            one = area(times, length, width + height, holes, Decimal(1))
            sides = item["code"] in ("FO1", "FO3") and "cast against" not in row["remark"]
            total += 2 * one if sides else one
        else:
            total += area(times, length, width + height, holes, Decimal("0.5"))
    return half_up(total, {"t": 3, "nr": 0}.get(item["unit"], 2))


bill, takeoff, rates = read("bill.csv"), read("takeoff.csv"), read("rates.csv")
errors, total = {}, Decimal(0)
for item in bill:
    rows = [row for row in takeoff if row["item"] == item["item"]]
    valid = [r for r in rates if r["code"] == item["code"] and r["valid_from"] <= "2026-05-12"]
    rate = Decimal(max(valid, key=lambda row: row["valid_from"])["rate"])
    amount = half_up(quantity(item, rows) * rate, 2)
    total += amount
    if amount != Decimal(item["amount"]):
        errors[item["item"]] = float(amount)

with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps({"errors": errors, "corrected_total": float(total)}) + "\n")
