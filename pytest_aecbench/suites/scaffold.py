"""A new template: complete, valid, and waiting for its problem to be written."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.trees import place, staging, write_files

__all__ = ["new_template"]

_PART = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


def new_template(template_id: str, root: Path) -> Path:
    """Write a template that works, all of it or nothing; one that exists is left alone."""
    discipline, _, name = template_id.partition("/")
    if not _PART.fullmatch(discipline) or not _PART.fullmatch(name):
        raise SettingsError(
            f"DISCIPLINE/NAME: {template_id!r} is not valid; use small letters, digits and -, "
            "as in electrical/ohms-law"
        )
    target = root / discipline / name
    words = name.replace("-", " ").capitalize()
    files = {
        "params.toml": _PARAMS.format(name=name, discipline=discipline, title=words),
        "instruction.md": _INSTRUCTION,
        "engine.py": _ENGINE.format(title=words),
        "data/wires.csv": _WIRES,
    }
    with staging(root) as scratch:
        write_files(scratch / "template", files)
        if not place(scratch / "template", target):
            raise SettingsError(f"DISCIPLINE/NAME: {target} exists; use another name or remove it")
    return target


_PARAMS = """\
[meta]
name = "{name}"
version = "1.0.0"
title = "{title}"
description = "Current and losses of a wire: replace it with your problem"
discipline = "{discipline}"
category = "circuits"
tags = ["example"]

# Parameters are drawn on a grid: the prompt prints exactly the value that the engine gets.
[params.voltage_v]
type = "float"
min = 12.0
max = 230.0
step = 0.5
symbol = "U"
unit = "V"
description = "voltage of the supply"

[params.load_ohm]
type = "float"
min = 2.0
max = 60.0
step = 0.1
symbol = "R"
unit = "ohm"
description = "resistance of the load"

[params.wire]
type = "choice"
values = ["thin", "medium", "thick"]
description = "wire"

# A value that a level hides needs a way to be found.
[params.wire_ohm]
type = "float"
symbol = "r"
unit = "ohm"
description = "resistance of the wire, both ways"
derive = {{ file = "wires.csv", key = "wire", column = "ohm" }}

[params.fuse_a]
type = "choice"
values = [2.0, 4.0, 6.0, 10.0, 16.0, 20.0]
unit = "A"
description = "current at which the fuse melts"

[outputs.current_a]
description = "current"
unit = "A"
rel = 0.01
weight = 2

[outputs.loss_w]
description = "power lost in the wire"
unit = "W"
rel = 0.01

[outputs.load_w]
description = "power of the load"
unit = "W"
rel = 0.01

[outputs.fuse_holds]
type = "flag"
description = "the fuse does not melt"
needs = "current_a"

[archetypes.bench]
description = "A supply feeds a load on a bench."

[archetypes.shed]
description = "A supply feeds a heater in a shed."

[difficulty.easy]
description = "one chain"
outputs = ["current_a", "loss_w", "load_w"]

[difficulty.medium]
description = "with losses and a check"

[difficulty.hard]
description = "the wire has to be looked up"
visibility = ["partial", "all_given"]
hidden = ["wire_ohm"]

[[constraints]]
rule = "voltage_v <= 40 * load_ohm"
why = "more current than the supply gives"

# At least two examples that you worked without the engine: every printed digit must be right.
[[examples]]
params = {{ voltage_v = 24.0, load_ohm = 7.5, wire = "medium", wire_ohm = 0.5, fuse_a = 4.0 }}
outputs = {{ current_a = 3.0, loss_w = 4.5, load_w = 67.5, fuse_holds = true }}
source = "worked by hand: 24 V / 8 ohm"

[[examples]]
params = {{ voltage_v = 50.0, load_ohm = 9.0, wire = "thin", wire_ohm = 1.0, fuse_a = 4.0 }}
outputs = {{ current_a = 5.0, loss_w = 25.0, load_w = 225.0, fuse_holds = false }}
source = "worked by hand: 50 V / 10 ohm"
"""
_INSTRUCTION = """\
# {{ meta.title }}

{{ archetype.description }} Its two wires and the load are in series.

## Given

{{ given_table }}

## Method

1. Current: I = U / (R + r).
2. Power lost in the wire: P = I² · r. Power of the load: P = I² · R.
"""
_ENGINE = '''\
"""{title}."""


class Reject(ValueError):
    """A draw that makes no sense."""


def compute(*, voltage_v, load_ohm, wire, wire_ohm, fuse_a):
    """Return the exact answer."""
    current = voltage_v / (load_ohm + wire_ohm)
    if not 0.4 < current / fuse_a < 2.5:
        raise Reject("current far from the fuse's")
    return {{
        "current_a": current,
        "loss_w": current**2 * wire_ohm,
        "load_w": current**2 * load_ohm,
        "fuse_holds": current < fuse_a,
    }}


def mistakes(*, voltage_v, load_ohm, wire, wire_ohm, fuse_a):
    """Return the usual wrong answers by name; only the fields that differ."""
    without_wire = voltage_v / load_ohm
    current = voltage_v / (load_ohm + wire_ohm)
    return {{
        "wire_left_out": {{
            "current_a": without_wire,
            "loss_w": without_wire**2 * wire_ohm,
            "load_w": without_wire**2 * load_ohm,
        }},
        "voltage_across_the_load": {{"loss_w": voltage_v * current, "load_w": voltage_v * current}},
    }}


def solve(*, voltage_v, load_ohm, wire, wire_ohm, fuse_a):
    """Find the answer in another way: by dividing the voltage."""
    share = load_ohm / (load_ohm + wire_ohm)
    current = voltage_v * share / load_ohm
    return {{
        "current_a": current,
        "loss_w": voltage_v * (1 - share) * current,
        "load_w": voltage_v * share * current,
        "fuse_holds": current < fuse_a,
    }}
'''
_WIRES = """\
wire,ohm
thin,1.0
medium,0.5
thick,0.2
"""
