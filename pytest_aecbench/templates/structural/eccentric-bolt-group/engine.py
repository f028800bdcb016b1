"""Elastic forces in a group of bolts under an eccentric load."""

from __future__ import annotations

import math

MOST_ROWS = 12


class Reject(ValueError):
    """A joint that would not be built."""


def places(count, distance):
    """Return evenly spaced places, symmetrical about 0."""
    return [(index - (count - 1) / 2) * distance for index in range(count)]


def forces(rows, columns, pitch, gauge, down, aside, moment):
    """Return the sum of squares and the components in the bolt with the largest force."""
    bolts = [(x, y) for x in places(columns, gauge) for y in places(rows, pitch)]
    polar = math.fsum(x * x + y * y for x, y in bolts)
    count = len(bolts)
    all_forces = [
        (aside / count + moment * y / polar, down / count + moment * x / polar) for x, y in bolts
    ]
    return polar, max(all_forces, key=lambda force: math.hypot(*force))


def at_worst(rows, columns, pitch, gauge, down, aside, moment):
    """Return the results for the bolt with the largest force."""
    polar, (horizontal, vertical) = forces(rows, columns, pitch, gauge, down, aside, moment)
    return {
        "polar_mm2": polar,
        "horizontal_kn": abs(horizontal),
        "vertical_kn": abs(vertical),
        "bolt_kn": math.hypot(horizontal, vertical),
    }


def least_rows(columns, pitch, gauge, down, aside, moment, resistance):
    """Return the smallest number of rows in which no bolt has too much force."""
    for rows in range(2, MOST_ROWS + 1):
        found = at_worst(rows, columns, pitch, gauge, down, aside, moment)
        if found["bolt_kn"] <= resistance:
            return rows
    raise Reject("more rows than the joint has room for")


def compute(
    *,
    columns,
    pitch_mm,
    gauge_mm,
    load_kn,
    rows=None,
    eccentricity_mm=None,
    reach_mm=None,
    angle_deg=None,
    bolt=None,
    shear_kn=None,
    planes=None,
):
    """Return the force in the worst bolt, or the rows for a bolt."""
    angle = math.radians(angle_deg or 0.0)
    down, aside = load_kn * math.cos(angle), load_kn * math.sin(angle)
    arm = eccentricity_mm
    if arm is None:
        arm = reach_mm + (columns - 1) * gauge_mm / 2
    moment = down * arm
    resistance = shear_kn * planes if shear_kn is not None else None
    count = rows
    if count is None:
        count = least_rows(columns, pitch_mm, gauge_mm, down, aside, moment, resistance)
        if count < 3:
            raise Reject("two rows suffice")
    found = at_worst(count, columns, pitch_mm, gauge_mm, down, aside, moment)
    found["rows_needed"] = count
    if resistance is not None:
        used = found["bolt_kn"] / resistance
        if not 0.5 < used < 1.8:
            raise Reject("force far from the resistance")
        found["largest_load_kn"] = load_kn / used
        found["suffices"] = used <= 1
    return found


def guards(
    *,
    columns,
    pitch_mm,
    gauge_mm,
    load_kn,
    rows=None,
    eccentricity_mm=None,
    reach_mm=None,
    angle_deg=None,
    bolt=None,
    shear_kn=None,
    planes=None,
):
    """Return how far the force is from the resistance, with these rows and with one less."""
    if rows is not None:
        return {}
    angle = math.radians(angle_deg)
    down, aside = load_kn * math.cos(angle), load_kn * math.sin(angle)
    moment = down * (reach_mm + (columns - 1) * gauge_mm / 2)
    count = least_rows(columns, pitch_mm, gauge_mm, down, aside, moment, shear_kn * planes)
    return {
        f"the resistance with {'these' if not less else 'fewer'} rows": at_worst(
            count - less, columns, pitch_mm, gauge_mm, down, aside, moment
        )["bolt_kn"]
        / (shear_kn * planes)
        - 1
        for less in (0, 1)
    }


def mistakes(
    *,
    columns,
    pitch_mm,
    gauge_mm,
    load_kn,
    rows=None,
    eccentricity_mm=None,
    reach_mm=None,
    angle_deg=None,
    bolt=None,
    shear_kn=None,
    planes=None,
):
    """Return the usual wrong answers."""
    angle = math.radians(angle_deg or 0.0)
    down, aside = load_kn * math.cos(angle), load_kn * math.sin(angle)
    arm = reach_mm if eccentricity_mm is None else eccentricity_mm
    whole = arm if reach_mm is None else arm + (columns - 1) * gauge_mm / 2
    resistance = shear_kn * planes if shear_kn is not None else None

    def wrong(down, aside, moment):
        count = rows or least_rows(columns, pitch_mm, gauge_mm, down, aside, moment, resistance)
        found = at_worst(count, columns, pitch_mm, gauge_mm, down, aside, moment)
        found["rows_needed"] = count
        if resistance is not None:
            found["largest_load_kn"] = load_kn * resistance / found["bolt_kn"]
        return found

    found = wrong(down, aside, down * whole)
    added = found["horizontal_kn"] + found["vertical_kn"]
    results = {
        "shared_equally": wrong(down, aside, 0.0),
        "components_added_as_numbers": {
            "bolt_kn": added,
            "largest_load_kn": load_kn * (resistance or 0.0) / added,
        },
    }
    if reach_mm is not None and columns > 1:
        results["arm_to_the_nearest_bolts"] = wrong(down, aside, down * arm)
    if angle_deg is not None:
        results["load_taken_as_vertical"] = wrong(load_kn, 0.0, load_kn * whole)
    return results


def solve(
    *,
    columns,
    pitch_mm,
    gauge_mm,
    load_kn,
    rows=None,
    eccentricity_mm=None,
    reach_mm=None,
    angle_deg=None,
    bolt=None,
    shear_kn=None,
    planes=None,
):
    """Turn the plate about its instantaneous centre; forces grow with the distance from it."""
    slope = math.tan(math.radians(angle_deg or 0.0))
    down = load_kn / math.sqrt(1 + slope * slope)
    if eccentricity_mm is None:
        moment = down * (reach_mm + gauge_mm * (columns - 1) / 2)
    else:
        moment = down * eccentricity_mm
    count = rows or 2
    while True:
        bolts = count * columns
        polar = bolts / 12 * (pitch_mm**2 * (count**2 - 1) + gauge_mm**2 * (columns**2 - 1))
        turn = moment / polar
        # All products are positive, so the corner that is farthest from the centre is the worst.
        right = (columns - 1) * gauge_mm / 2 + down / bolts / turn
        above = (count - 1) * pitch_mm / 2 + down * slope / bolts / turn
        force = turn * math.sqrt(right * right + above * above)
        if rows is not None or force <= shear_kn * planes:
            break
        count += 1
    answer = {
        "polar_mm2": polar,
        "horizontal_kn": turn * above,
        "vertical_kn": turn * right,
        "bolt_kn": force,
        "rows_needed": count,
    }
    if shear_kn is not None:
        answer["largest_load_kn"] = load_kn * shear_kn * planes / force
        answer["suffices"] = force <= shear_kn * planes
    return answer
