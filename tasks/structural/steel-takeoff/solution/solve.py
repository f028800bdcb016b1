"""Work in feet and pounds for imported members and in metres and kilograms for others."""

import csv
import json

KG_PER_LB, M_PER_FT, L_PER_GAL = 0.45359237, 0.3048, 3.785411784


def read(name):
    with open(f"/workspace/{name}", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def feet(text, unit):
    """Return a length of the importer's members in feet."""
    if unit == "ft":
        return float(text)
    whole, _, rest = text.rstrip('"').partition("'-")
    inches, _, part = rest.partition(" ")
    fraction = int(part.split("/")[0]) / int(part.split("/")[1]) if part else 0.0
    return int(whole) + (int(inches) + fraction) / 12


works = {row["designation"]: row for row in read("sections-works.csv")}
imported = {row["designation"]: row for row in read("sections-imported.csv")}
masses, pieces, surfaces = [], [], {"P1": 0.0, "P2": 0.0}
for member in read("members.csv"):
    section, unit = member["section"], member["unit"]
    if section in imported:
        row, length = imported[section], feet(member["length"], unit)
        mass = float(row["weight_lb_per_ft"]) * length * KG_PER_LB
        area = float(row["surface_ft2_per_100ft"]) * length / 100 * M_PER_FT**2
    else:
        pair = 2 if section.startswith("2L-") else 1
        row = works[section[1:] if pair == 2 else section]
        length = float(member["length"]) / (1000 if unit == "mm" else 1)
        per_metre = float(row["mass_kg_per_m"] or 0) or float(row["area_cm2"]) * 0.785
        mass = pair * per_metre * length
        area = pair * float(row["surface_m2_per_m"]) * length
    count = int(member["pieces"])
    masses.append(mass * count)
    pieces.append(mass)
    if member["coating"] in surfaces:
        surfaces[member["coating"]] += area * count

litres, cost = {"P1": 0.0, "P2": 0.0}, 0.0
for coat in read("coatings.csv"):
    microns = float(coat["dry_film"]) * (25.4 if coat["dry_film_unit"] == "mil" else 1)
    # A litre covers 1000/film(um) m2 when it is all solids and nothing is lost.
    kept = float(coat["volume_solids_percent"]) * (100 - float(coat["loss_percent"])) / 10_000
    volume = surfaces[coat["system"]] * microns / 1000 / kept
    litres[coat["system"]] += volume
    cost += float(coat["price"]) * volume / (L_PER_GAL if coat["per"] == "gal" else 1)

answer = {
    "total_mass_t": sum(masses) / 1000,
    "heaviest_piece_kg": max(pieces),
    "painted_surface_m2": surfaces,
    "paint_l": litres,
    "paint_cost": cost,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
