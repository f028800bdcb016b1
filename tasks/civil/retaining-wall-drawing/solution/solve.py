"""Read the texts of the drawing that hold, scale its one detail, and add up bay by bay."""

import json
import math
import re
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
root = ElementTree.parse("/workspace/wall.svg").getroot()


def texts(group):
    """Return what a group says, without texts that are struck out or not shown."""
    (found,) = (node for node in root.iter(f"{SVG}g") if node.get("id") == group)
    return [
        node.text
        for node in found.iter(f"{SVG}text")
        if node.get("text-decoration") != "line-through"
    ]


def dimensions(group):
    """Return the dimensions in a group, in the order of the file."""
    found = (re.fullmatch(r"(\d+)( \([A-Z]\))?", text) for text in texts(group))
    return [float(match[1]) for match in found if match]


def number(group, pattern):
    (found,) = {match[1] for text in texts(group) if (match := re.search(pattern, text))}
    return float(found)


def scaled(name, ancestors=(root,), scale=1.0):
    """Return a path's commands and the scale at which it is drawn on the sheet."""
    for node in ancestors[-1]:
        change = re.search(r"scale\(([\d.]+)\)", node.get("transform", ""))
        own = scale * (float(change[1]) if change else 1.0)
        if node.get("id") == name:
            return node.get("d"), own
        if found := scaled(name, (*ancestors, node), own):
            return found
    return None


# Section and elevation, in mm; levels in m.
toe, stem, base, thickness = dimensions("section-a-a")
*bays, _ = dimensions("elevation")  # the last is their sum, which is not up to date
foot = number("section-a-a", r"top of base \+([\d.]+)")
ground = number("elevation", r"finished ground \+([\d.]+)")
high = number("elevation", r"bays 1 and 2: top of wall \+([\d.]+)")
low = number("elevation", r"bay 3: top of wall \+([\d.]+)")
tops = [high, high, low]

# Detail B: a step of so many units down and so many across.
path, zoom = scaled("key")
(down,), (across,) = re.findall(r"v (\d+) ", path), re.findall(r"h (\d+)", path)
detail = number("detail-b", r"1:(\d+)") * zoom
key_depth, key_width = float(down) * detail, float(across) * detail

edge, most = 600, number("notes", r"not more than (\d+) centres")
holes = sum(math.ceil((bay - 2 * edge) / most) + 1 for bay in bays)
front = sum(bay / 1000 * (top - ground) for bay, top in zip(bays, tops))
concrete = sum(
    bay / 1000 * (stem / 1000 * (top - foot) + (base * thickness + key_width * key_depth) / 1e6)
    for bay, top in zip(bays, tops)
)
answer = {
    "stem_height_mm": round((high - foot) * 1000),
    "heel_mm": round(base - toe - stem),
    "length_mm": round(sum(bays)),
    "key_width_mm": key_width,
    "key_depth_mm": key_depth,
    "weep_holes": holes,
    "front_face_m2": front,
    "concrete_m3": concrete,
}
with open("/workspace/output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
