"""Read the defects and their corrections from the log, apply the brief, and write the report."""

import csv
import json
import math
import re
import statistics


def text_of(name):
    with open(f"/workspace/{name}", encoding="utf-8") as stream:
        return stream.read()


log = text_of("inspection-log.md")
cracks, spalls = {}, {}
for entry in log.split("\n\n"):
    element = entry.partition(",")[0]
    if found := re.search(r"Defect: .*?crack ([\d.]+) mm", entry):
        cracks[element] = float(found[1])
    if found := re.search(r"Defect: .*?spalled over ([\d.]+) m²", entry):
        spalls[element] = float(found[1])
for width, element in re.findall(r"Addition: a crack ([\d.]+) mm.* on (\S+)\.", log):
    cracks[element] = float(width)
for element, width in re.findall(r"Correction: the crack on (\S+) .*? is ([\d.]+) mm wide", log):
    cracks[element] = float(width)
for element, area in re.findall(r"Correction: the spall on (\S+) .*? covers ([\d.]+) m²", log):
    spalls[element] = float(area)

girder_cracks = {name: width for name, width in cracks.items() if "-G" in name}
limits = {name: 0.30 if int(name[1:3]) <= 4 else 0.40 for name in girder_cracks}
repair = sorted(name for name, width in girder_cracks.items() if width > limits[name])
worst = max(girder_cracks, key=lambda name: girder_cracks[name])
area = 1.15 * sum(size for name, size in spalls.items() if "-G" in name)

with open("/workspace/cores.csv", encoding="utf-8", newline="") as stream:
    cores = [float(row["strength_mpa"]) for row in csv.DictReader(stream) if not row["remark"]]
strength = statistics.mean(cores) - 1.48 * statistics.stdev(cores)
limit = math.floor(min(44.0, 44.0 * strength / 35.0) - 0.5 * len(repair))

answer = {
    "repair": repair,
    "worst_crack_at": worst,
    "repair_area_m2": round(area, 5),
    "strength_mpa": round(strength, 5),
    "limit_t": limit,
}
rows = [f"| {name} | crack, {width} mm |" for name, width in sorted(cracks.items())]
rows += [f"| {name} | spall, {size} m² |" for name, size in sorted(spalls.items())]
report = f"""# 1. Background

Bridge B-17 of the Shire of Warrel has twelve spans, of which S01 to S04 are in the spray zone.

# 2. Condition

| element | defect |
|---|---|
{chr(10).join(rows)}

# 3. Materials

{len(cores)} cores count.

# 4. Assessment

The limit follows from the strength and from {len(repair)} girders that have to be repaired.

# 5. Summary

```json
{json.dumps(answer)}
```
"""
with open("/workspace/output.md", "w", encoding="utf-8") as stream:
    stream.write(report)
