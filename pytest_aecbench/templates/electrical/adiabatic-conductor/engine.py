"""Adiabatic equation for protective conductors, IEC 60364-5-54, 543.1.2."""

from __future__ import annotations

import math

SIZES = (4, 6, 10, 16, 25, 35, 50, 70, 95, 120, 150, 185, 240, 300)


class Reject(ValueError):
    """A conductor outside the standard sizes."""


def next_size(area):
    """Return the smallest standard size that is not below the area."""
    for size in SIZES:
        if size >= area:
            return size
    raise Reject("larger than every standard size")


def answer(area, size, amperes, k):
    """Return all results for a cross-section and a size."""
    return {
        "minimum_area_mm2": area,
        "size_mm2": size,
        "max_time_s": (k * size / amperes) ** 2,
    }


def compute(*, loop_impedance_ohm, fault_ka, time_s, cable, k):
    """Return the cross-section, the standard size and the time that it withstands."""
    amperes = 1000 * fault_ka
    area = amperes * math.sqrt(time_s) / k
    if area < SIZES[0]:
        raise Reject("smaller than every standard size")
    found = answer(area, next_size(area), amperes, k)
    found["energy_ka2s"] = fault_ka**2 * time_s
    return found


def guards(*, loop_impedance_ohm, fault_ka, time_s, cable, k):
    """Return the distance from each standard size."""
    area = 1000 * fault_ka * math.sqrt(time_s) / k
    return {f"the size {size}": area / size - 1 for size in SIZES}


def mistakes(*, loop_impedance_ohm, fault_ka, time_s, cable, k):
    """Return the usual wrong answers."""
    amperes = 1000 * fault_ka
    area = amperes * math.sqrt(time_s) / k
    smaller = max(size for size in SIZES if size < area)
    linear = amperes * time_s / k
    sizes_for_linear = [size for size in SIZES if size >= linear] or [SIZES[-1]]
    return {
        "time_without_its_root": answer(linear, sizes_for_linear[0], amperes, k),
        "current_in_kiloamperes": {"minimum_area_mm2": area / 1000, "size_mm2": SIZES[0]},
        "next_smaller_size": answer(area, smaller, amperes, k),
    }


def solve(*, loop_impedance_ohm, fault_ka, time_s, cable, k):
    """Compare the energy that passes with the energy that each size withstands."""
    passed = (fault_ka * 1e3) ** 2 * time_s
    size = min(size for size in SIZES if (k * size) ** 2 >= passed)
    return {
        "energy_ka2s": passed / 1e6,
        "minimum_area_mm2": math.sqrt(passed) / k,
        "size_mm2": size,
        "max_time_s": time_s * (k * size) ** 2 / passed,
    }
