"""Apply the contract's clauses to the statements on each item, read from the documents."""

import csv
import json
import re
from collections import namedtuple

Statement = namedtuple("Statement", "rank order value general", defaults=(False,))

INSTRUCTION, ADDENDUM, PARTICULAR, DRAWING, SCHEDULE, STANDARD = range(6)
NOT_SETTLED_BY_ORDER = ("fire resistance", "imposed load")
NUMBERS = {"two": 2, "three": 3, "four": 4}


def text(name):
    with open(f"/workspace/{name}", encoding="utf-8") as stream:
        return stream.read()


def rows(name):
    with open(f"/workspace/{name}", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


issued = [row for row in rows("instructions.csv") if row["status"] == "issued"]
revoked = {match[1] for row in issued if (match := re.match(r"(CI-\d+) is revoked", row["text"]))}
instructions = [(row["date"], row["text"]) for row in issued if row["number"] not in revoked]

addenda = dict(enumerate(re.split(r"^# .*$", text("addenda.md"), flags=re.MULTILINE)[1:]))
particular = text("particular-specification.md")
for addendum in addenda.values():
    for clause, new in re.findall(r'clause ([\d.]+), is replaced by: "(.+?)"', addendum):
        particular = re.sub(rf"^{re.escape(clause)} .*$", new, particular, flags=re.MULTILINE)

drawings = {}  # name -> (scale, revision, notes): the latest revision replaces earlier ones
for head, notes in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text("drawings.md"), re.MULTILINE):
    name, scale, revision = re.match(r"(\S+),.* 1:(\d+), revision (\w)", head).groups()
    if name not in drawings or drawings[name][1] < revision:
        drawings[name] = (int(scale), revision, notes)
standard = text("standard-specification.md")

# How each item is worded in prose, and in the schedules: schedule, element, property.
PROSE = {
    "item_01": r"[Ss]creeds? (?:in classrooms:? |are typically )([\d.]+) (mm)",
    "item_02": r"Door D07: clear width ([\d.]+) (mm)",
    "item_03": r"Wall between plant room and corridor: fire resistance (\d+) (min)",
    "item_04": r"(?:roof: thickness of the insulation|Insulation of the flat roof:?) (\d+) (mm)",
    "item_05": r"(?:in the hall: hangers at|Hangers of suspended ceilings: typically) (\d+) (mm)",
    "item_06": r"(?:slab: cover of the bottom reinforcement|cover: typically) (\d+) (mm)",
    "item_07": r"(?:Stair 2: handrail at|Handrails are generally) ([\d.]+) (mm|m)\b",
    "item_08": r"[Ff]loors? of (?:the )?archives?:(?: imposed load)? ([\d.]+) (kN)",
    "item_09": r"(?:Steel handrails: |Paint on steel: typically )(\w+) (coats)",
    "item_10": r"[Cc]lassrooms(?::| )\s*([\d.]+) (l/s)",
    "item_11": r"Door D12: fire resistance (\d+) (min)",
    "item_12": r"Parapet (?:of the flat roof )?([\d.]+) (mm|m) high",
    "item_13": r"[Ff]loor of the plant room:(?: imposed load)? ([\d.]+) (kN)",
    "item_14": r"Gutter (?:of the flat roof: )?(?:width )?(\d+) (mm)",
    "item_15": r"between classrooms(?:: sound reduction|:)? (\d+) (dB)",
    "item_16": r"(?:Strip foundations|garden walls) (\d+) (mm)",
}
SCHEDULES = {
    "item_01": ("classrooms", "thickness of the screed"),
    "item_02": ("D07", "clear width"),
    "item_04": ("flat roof", "thickness of the insulation"),
    "item_07": ("stair 2", "height of the handrail"),
    "item_11": ("D12", "fire resistance"),
    "item_12": ("flat roof", "height of the parapet"),
}
GENERAL = re.compile(r"typically|generally|unless noted otherwise")


def found(item, body, rank, order=0):
    """Yield what a document states on an item."""
    for line in body.splitlines():
        for match in re.finditer(PROSE[item], line):
            number, unit = match.groups()
            value = NUMBERS[number] if number in NUMBERS else float(number)
            value = round(value * 1000, 9) if unit == "m" else value
            # A line may state several values; look around this one alone.
            around = re.split(r"(?<=[;.]) ", line[: match.end()])[-1] + line[match.end() :]
            yield Statement(rank, order, value, bool(GENERAL.search(around)))


def statements(item):
    for order, body in instructions:
        yield from found(item, body, INSTRUCTION, order)
    for order, body in addenda.items():
        yield from found(item, body, ADDENDUM, order)
    yield from found(item, particular, PARTICULAR)
    for scale, _, notes in drawings.values():
        yield from found(item, notes, DRAWING, -scale)
    for row in rows("schedules.csv"):
        if (row["element"], row["property"]) == SCHEDULES.get(item):
            yield Statement(SCHEDULE, 0, float(row["value"]))
    yield from found(item, standard, STANDARD)


def withdrawn(row):
    """Return the rank of a document that withdraws an item without giving another value."""
    for body in addenda.values():
        if re.search(rf"{re.escape(row['element'])}: .* is withdrawn", body, re.IGNORECASE):
            return ADDENDUM
    return None


def governing(row):
    stated = list(statements(row["item"]))
    rank = withdrawn(row)
    if rank is not None:
        stated = [one for one in stated if one.rank < rank]
    if not all(one.general for one in stated):
        stated = [one for one in stated if not one.general]
    if row["value asked for"] not in NOT_SETTLED_BY_ORDER and stated:
        first = min(one.rank for one in stated)
        stated = [one for one in stated if one.rank == first]
        latest = max(one.order for one in stated)
        stated = [one for one in stated if one.order == latest]
    values = {one.value for one in stated}
    return values.pop() if len(values) == 1 else "report"


answer = {row["item"]: governing(row) for row in rows("items.csv")}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
