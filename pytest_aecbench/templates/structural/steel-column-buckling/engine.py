"""Flexural buckling of a steel column, EN 1993-1-1, 6.3.1."""

from __future__ import annotations

import math

MODULUS = 210000.0  # MPa
IMPERFECTION = {"a0": 0.13, "a": 0.21, "b": 0.34, "c": 0.49, "d": 0.76}


class Reject(ValueError):
    """A column that makes no sense."""


def reduction(length_mm, radius_mm, yield_mpa, curve):
    """Return slenderness and reduction factor."""
    slenderness = length_mm / radius_mm / (math.pi * math.sqrt(MODULUS / yield_mpa))
    phi = 0.5 * (1 + IMPERFECTION[curve] * (slenderness - 0.2) + slenderness**2)
    return slenderness, 1 / (phi + math.sqrt(phi**2 - slenderness**2))


def results(slenderness, factor, area_cm2, yield_mpa, load_kn):
    """Return what follows from a reduction factor, with gamma_M1 = 1.0."""
    resistance = factor * area_cm2 * yield_mpa / 10
    found = {"slenderness": slenderness, "reduction": factor, "resistance_kn": resistance}
    if load_kn is not None:
        found["utilisation"] = load_kn / resistance
        found["suffices"] = load_kn <= resistance
    return found


def both_axes(length_m, area_cm2, radii, curves, restraints, yield_mpa, load_kn):
    """Return the results for buckling about y, and about z between the restraints."""
    long, short = 1000 * length_m, 1000 * length_m / (restraints + 1)
    about_y = reduction(long, 10 * radii[0], yield_mpa, curves[0])
    about_z = reduction(short, 10 * radii[1], yield_mpa, curves[1])
    return (
        {**results(*about_y, area_cm2, yield_mpa, load_kn), "governing_axis": "y"},
        {**results(*about_z, area_cm2, yield_mpa, load_kn), "governing_axis": "z"},
    )


def compute(
    *,
    length_m,
    yield_mpa,
    section,
    area_cm2,
    i_z_cm,
    curve_z,
    end_factor=None,
    load_kn=None,
    i_y_cm=None,
    curve_y=None,
    restraints=None,
):
    """Return the resistance about the weak axis, or about the one that governs."""
    if restraints is None:
        about = reduction(1000 * end_factor * length_m, 10 * i_z_cm, yield_mpa, curve_z)
        found = results(*about, area_cm2, yield_mpa, load_kn)
    else:
        radii, curves = (i_y_cm, i_z_cm), (curve_y, curve_z)
        axes = both_axes(length_m, area_cm2, radii, curves, restraints, yield_mpa, load_kn)
        found = min(axes, key=lambda axis: axis["resistance_kn"])
    if not 0.3 <= found["slenderness"] <= 2.2:
        raise Reject("slenderness outside 0.3 to 2.2")
    if load_kn is not None and not 0.5 < found["utilisation"] < 1.8:
        raise Reject("load far from the resistance")
    return found


def mistakes(
    *,
    length_m,
    yield_mpa,
    section,
    area_cm2,
    i_z_cm,
    curve_z,
    end_factor=None,
    load_kn=None,
    i_y_cm=None,
    curve_y=None,
    restraints=None,
):
    """Return the usual wrong answers."""
    if restraints is None:
        long, radius = 1000 * length_m, 10 * i_z_cm
        slenderness, _ = reduction(end_factor * long, radius, yield_mpa, curve_z)
        better = {"b": "a", "c": "b"}[curve_z]
        other = reduction(end_factor * long, radius, yield_mpa, better)
        wrong = {
            "neighbouring_curve": results(*other, area_cm2, yield_mpa, load_kn),
            "euler_without_imperfection": results(
                slenderness, min(1.0, slenderness**-2), area_cm2, yield_mpa, load_kn
            ),
            "no_buckling": results(slenderness, 1.0, area_cm2, yield_mpa, load_kn),
        }
        if end_factor != 1:
            whole = reduction(long, radius, yield_mpa, curve_z)
            wrong["length_without_end_factor"] = results(*whole, area_cm2, yield_mpa, load_kn)
        return wrong
    radii, curves = (i_y_cm, i_z_cm), (curve_y, curve_z)
    axes = both_axes(length_m, area_cm2, radii, curves, restraints, yield_mpa, load_kn)
    wrong = {"stronger_axis": max(axes, key=lambda axis: axis["resistance_kn"])}
    if restraints:
        bare = both_axes(length_m, area_cm2, radii, curves, 0, yield_mpa, load_kn)
        wrong["restraints_forgotten"] = min(bare, key=lambda axis: axis["resistance_kn"])
    same = both_axes(length_m, area_cm2, radii, (curve_y, curve_y), restraints, yield_mpa, load_kn)
    if axes[0]["resistance_kn"] > axes[1]["resistance_kn"]:
        wrong["curve_of_the_strong_axis"] = same[1]
    return wrong


def reduced(critical_kn, squash_kn, alpha):
    """Return the resistance as the root of Ayrton and Perry's quadratic equation."""
    ratio = squash_kn / critical_kn
    bow = alpha * (math.sqrt(ratio) - 0.2)
    # (1 - s)(1 - ratio · s) = bow · s, where s is the resistance over the squash load
    b = 1 + ratio + bow
    return squash_kn * (b - math.sqrt(b * b - 4 * ratio)) / (2 * ratio)


def solve(
    *,
    length_m,
    yield_mpa,
    section,
    area_cm2,
    i_z_cm,
    curve_z,
    end_factor=None,
    load_kn=None,
    i_y_cm=None,
    curve_y=None,
    restraints=None,
):
    """Go by Euler's load and the quadratic equation behind the buckling curves."""
    squash = area_cm2 * 1e-4 * yield_mpa * 1e3
    ways = [("", i_z_cm, end_factor, curve_z)]
    if restraints is not None:
        ways = [("y", i_y_cm, 1.0, curve_y), ("z", i_z_cm, 1 / (1 + restraints), curve_z)]
    worst = None
    for axis, radius, factor, name in ways:
        inertia = area_cm2 * radius**2 * 1e-8
        critical = math.pi**2 * MODULUS * 1e3 * inertia / (factor * length_m) ** 2
        resistance = reduced(critical, squash, IMPERFECTION[name])
        if worst is None or resistance < worst["resistance_kn"]:
            worst = {
                "slenderness": math.sqrt(squash / critical),
                "reduction": resistance / squash,
                "resistance_kn": resistance,
            }
            if axis:
                worst["governing_axis"] = axis
    if load_kn is not None:
        worst["utilisation"] = load_kn / worst["resistance_kn"]
        worst["suffices"] = worst["utilisation"] <= 1
    return worst
