"""Apply the addenda to the specification, then read the facts from its clauses and tables."""

import json
import re


def text_of(name):
    with open(f"/workspace/{name}", encoding="utf-8") as stream:
        return stream.read()


specification = text_of("specification.md")
clauses = {
    number: " ".join(words.split())
    for number, words in re.findall(
        r"^(\d+\.\d+) (.+?)(?=\n\n|\Z)", specification, re.MULTILINE | re.DOTALL
    )
}
changed_by = {}
for addendum in ("addendum-1.md", "addendum-2.md"):
    for item, clause, rest in re.findall(
        r"^(A\d\.\d+) In clause (\d+\.\d+), (.+)$", text_of(addendum), re.MULTILINE
    ):
        for old, new in re.findall(r'for "([^"]+)" read "([^"]+)"', rest):
            clauses[clause] = clauses[clause].replace(old, new, 1)
            changed_by[clause] = item


def figure(clause, pattern):
    """Return the number that a clause gives, and the clause or the item that gives it."""
    found = re.search(pattern, clauses[clause])
    return float(found[1]), changed_by.get(clause, clause)


def row_of(first_cell):
    (row,) = re.findall(rf"^\| {re.escape(first_cell)} \|(.+)\|$", specification, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


serves, place, circuit, load, loss, pressure, size, _ = row_of("CHWP-3")
assert serves == "laboratory wing" and place == "roof deck" and "open air" in clauses["1.4"]

leaving, _ = figure("3.7", r"chillers at (\d+) °C")
returning, return_clause = figure("3.9", r"return chilled water at (\d+) °C")
surplus, surplus_clause = figure("5.12", r"surplus of (\d+) %")
glycol, glycol_clause = figure("14.9", r"glycol of (\d+) %")
density, heat, factor = map(float, row_of(f"{glycol:g}"))
on_head, _ = figure("22.15", r"increased by (\d+) %")
assert "steel" in clauses["12.3"]
times, _ = figure("9.4", r"at ([\d.]+) times")
least, test_clause = figure("9.4", r"not below ([\d.]+) MPa")
indoors = {
    int(up_to): int(thick)
    for thick, up_to in re.findall(r"(\d+) mm (?:thick )?up to DN (\d+)", clauses["17.5"])
}
outdoors, insulation_clause = figure("17.8", r"increased by (\d+) mm")

flow = float(load) / (density / 1000 * heat * (returning - leaving))
ratio = 1 + surplus / 100
answer = {
    "flow_l_s": flow * ratio,
    "head_kpa": float(loss) * ratio**2 * factor * (1 + on_head / 100),
    "test_pressure_kpa": max(times * float(pressure), 1000 * least),
    "insulation_mm": indoors[min(dn for dn in indoors if dn >= int(size))] + int(outdoors),
    "clauses": {
        "return_temperature": return_clause,
        "glycol": glycol_clause,
        "surplus": surplus_clause,
        "test_pressure": test_clause,
        "insulation": insulation_clause,
    },
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
