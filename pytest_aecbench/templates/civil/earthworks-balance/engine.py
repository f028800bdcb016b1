"""Volumes of cut and fill along a road, and the balance of its material."""

from __future__ import annotations

import math


class Reject(ValueError):
    """A road whose material is nearly balanced, or that moves hardly any."""


def volumes(areas, spacing):
    """Return cut and fill between each pair of sections; fill areas are negative."""
    found = []
    for one, other in zip(areas, areas[1:]):
        if one * other >= 0:
            mean = (one + other) / 2 * spacing
            found.append((max(mean, 0.0), max(-mean, 0.0)))
        else:
            cut, fill = max(one, other), -min(one, other)
            zero = spacing * cut / (cut + fill)
            found.append((cut / 2 * zero, fill / 2 * (spacing - zero)))
    return found


def totals(parts):
    """Return the volumes of cut and fill."""
    return math.fsum(cut for cut, _ in parts), math.fsum(fill for _, fill in parts)


def ordinates(parts, bank):
    """Return the mass-haul diagram behind the first section."""
    found = [0.0]
    for cut, fill in parts:
        found.append(found[-1] + cut - fill * bank)
    return found[1:]


def balanced(parts, swell, shrink, truck, factor=None):
    """Return the balance in bank volume and the truck loads that it makes."""
    bank = 1 / (1 - shrink / 100) if factor is None else factor
    cut, fill = totals(parts)
    balance = cut - fill * bank
    peak = max(ordinates(parts, bank), key=abs)
    loads = math.ceil(abs(balance) * (1 + swell / 100) / truck)
    return {
        "cut_m3": cut,
        "fill_m3": fill,
        "fill_bank_m3": fill * bank,
        "balance_m3": balance,
        "peak_m3": peak,
        "loads": loads,
        "surplus": balance > 0,
    }


def profile(sections):
    """Return the areas in the order of their names."""
    return [sections[name] for name in sorted(sections)]


def compute(*, spacing_m, swell_percent=None, shrink_percent=None, truck_m3=None, **sections):
    """Return the volumes, and what becomes of them."""
    parts = volumes(profile(sections), spacing_m)
    cut, fill = totals(parts)
    if shrink_percent is None:
        return {"cut_m3": cut, "fill_m3": fill, "net_m3": cut - fill}
    found = balanced(parts, swell_percent, shrink_percent, truck_m3)
    if abs(found["balance_m3"]) < 0.1 * max(cut, fill):
        raise Reject("nearly balanced")
    return found


def guards(*, spacing_m, swell_percent=None, shrink_percent=None, truck_m3=None, **sections):
    """Return how far the truck loads are from a whole number; many loads are less exact."""
    if shrink_percent is None:
        return {}
    bank = 1 / (1 - shrink_percent / 100)
    diagram = ordinates(volumes(profile(sections), spacing_m), bank)
    loads = abs(diagram[-1]) * (1 + swell_percent / 100) / truck_m3
    distance = loads - math.floor(loads + 0.5)
    return {
        "a whole number of loads": distance / max(1, loads / 15),
        "a second peak": -min(diagram) / max(diagram) - 1 if max(diagram) > 0 else 1.0,
    }


def mistakes(*, spacing_m, swell_percent=None, shrink_percent=None, truck_m3=None, **sections):
    """Return the usual wrong answers."""
    areas = profile(sections)
    parts = volumes(areas, spacing_m)
    whole = [
        (
            max(one, 0.0) / 2 * spacing_m + max(other, 0.0) / 2 * spacing_m,
            max(-one, 0.0) / 2 * spacing_m + max(-other, 0.0) / 2 * spacing_m,
        )
        for one, other in zip(areas, areas[1:])
    ]
    net = [
        (max(one + other, 0.0) / 2 * spacing_m, max(-one - other, 0.0) / 2 * spacing_m)
        for one, other in zip(areas, areas[1:])
    ]
    if shrink_percent is None:
        wrong = {"no_daylight_point": totals(whole), "cut_and_fill_cancel": totals(net)}
        return {
            name: {"cut_m3": cut, "fill_m3": fill, "net_m3": cut - fill}
            for name, (cut, fill) in wrong.items()
        }
    rest = (swell_percent, shrink_percent, truck_m3)
    return {
        "no_daylight_point": balanced(whole, *rest),
        "shrink_multiplies": balanced(parts, *rest, factor=1 - shrink_percent / 100),
        "shrink_added": balanced(parts, *rest, factor=1 + shrink_percent / 100),
        "swell_left_out": {"loads": balanced(parts, 0, shrink_percent, truck_m3)["loads"]},
    }


def above(one, other, spacing):
    """Return the positive part of a straight line's integral: of y dy over its slope."""
    if one == other:
        return max(one, 0.0) * spacing
    ends = max(other, 0.0) ** 2 - max(one, 0.0) ** 2
    return spacing * ends / (2 * (other - one))


def solve(*, spacing_m, swell_percent=None, shrink_percent=None, truck_m3=None, **sections):
    """Integrate positive and negative parts, and sum up station by station."""
    areas = [sections[name] for name in sorted(sections)]
    pairs = list(zip(areas[:-1], areas[1:]))
    cuts = [above(one, other, spacing_m) for one, other in pairs]
    fills = [above(-one, -other, spacing_m) for one, other in pairs]
    cut, fill = math.fsum(cuts), math.fsum(fills)
    answer = {"cut_m3": cut, "fill_m3": fill, "net_m3": cut - fill}
    if shrink_percent is None:
        return answer
    kept = (100 - shrink_percent) / 100
    answer = {"cut_m3": cut, "fill_m3": fill, "fill_bank_m3": fill / kept}
    diagram = [
        math.fsum(cuts[:stop]) - math.fsum(fills[:stop]) / kept for stop in range(1, len(pairs) + 1)
    ]
    answer["balance_m3"] = diagram[-1]
    answer["peak_m3"] = max(diagram, key=abs)
    loose = abs(diagram[-1]) / 100 * (100 + swell_percent)
    loads = 0
    while loads * truck_m3 < loose:
        loads += 1
    answer["loads"] = loads
    answer["surplus"] = diagram[-1] > 0
    return answer


def files(*, spacing_m, swell_percent=None, shrink_percent=None, truck_m3=None, **sections):
    """Return the areas as a table."""
    rows = ["section,area_m2"]
    rows += [f"{int(name[-2:])},{sections[name]:.1f}" for name in sorted(sections)]
    return {"sections.csv": "\n".join(rows) + "\n"}
