"""Reverberation time by Sabine, and the panels that shorten it."""

from __future__ import annotations

import math

PERSON = 0.45  # m² of absorption
BANDS = (500, 1000, 2000)


class Reject(ValueError):
    """A room that needs no panels, or that has no room for them."""


def absorption(length, width, height, people, floor, wall, ceiling):
    """Return the absorption of the room and the area of its walls."""
    walls = 2 * (length + width) * height
    return length * width * (floor + ceiling) + walls * wall + PERSON * people, walls


def treated(volume, absorbed, wall, panel, target):
    """Return the absorption that is missing, and the panels that add it."""
    missing = 0.161 * volume / target - absorbed
    return missing, missing / (panel - wall)


def single(room, people, alphas, target, free_percent):
    """Return the results for one band."""
    floor, wall, ceiling, panel = alphas
    volume = room[0] * room[1] * room[2]
    absorbed, walls = absorption(*room, people, floor, wall, ceiling)
    found = {
        "wall_m2": walls,
        "absorption_m2": absorbed,
        "time_s": 0.161 * volume / absorbed,
    }
    if target is None:
        return found
    missing, area = treated(volume, absorbed, wall, panel, target)
    if missing < 0.1 * absorbed:
        raise Reject("hardly any panels are needed")
    found["missing_m2"] = missing
    found["panels_m2"] = area
    if free_percent is not None:
        free = free_percent / 100 * walls
        if not 0.4 < area / free < 2.2:
            raise Reject("panels far from the free wall")
        found["fits"] = area <= free
    return found


def compute(
    *,
    length_m,
    width_m,
    height_m,
    people,
    target_s=None,
    floor_alpha=None,
    wall_alpha=None,
    ceiling_alpha=None,
    panel_alpha=None,
    free_percent=None,
    floor=None,
    wall=None,
    ceiling=None,
    panel=None,
    **bands,
):
    """Return the reverberation time and the panels, in one band or in the worst of three."""
    room = (length_m, width_m, height_m)
    if not bands:
        alphas = (floor_alpha, wall_alpha, ceiling_alpha, panel_alpha)
        return single(room, people, alphas, target_s, free_percent)
    worst = None
    for band in BANDS:
        alphas = tuple(bands[f"{part}_{band}"] for part in ("floor", "wall", "ceiling", "panel"))
        found = single(room, people, alphas, target_s, None)
        if worst is None or found["panels_m2"] > worst["panels_m2"]:
            worst = {**found, "governing": f"{band} Hz"}
    if worst["panels_m2"] > 0.8 * worst["wall_m2"]:
        raise Reject("more panels than 80 % of the walls")
    return worst


def mistakes(
    *,
    length_m,
    width_m,
    height_m,
    people,
    target_s=None,
    floor_alpha=None,
    wall_alpha=None,
    ceiling_alpha=None,
    panel_alpha=None,
    free_percent=None,
    floor=None,
    wall=None,
    ceiling=None,
    panel=None,
    **bands,
):
    """Return the usual wrong answers."""
    room = (length_m, width_m, height_m)
    volume = math.prod(room)
    if bands:
        found = []
        for band in BANDS:
            parts = ("floor", "wall", "ceiling", "panel")
            alphas = tuple(bands[f"{part}_{band}"] for part in parts)
            found.append(
                {**single(room, people, alphas, target_s, None), "governing": f"{band} Hz"}
            )
        found = sorted(found, key=lambda one: one["panels_m2"])
        worst = found[-1]
        panel_there = bands["panel_" + worst["governing"].split()[0]]
        return {
            "band_with_the_fewest_panels": found[0],
            "band_in_between": found[1],
            "wall_behind_the_panels_counted": {"panels_m2": worst["missing_m2"] / panel_there},
        }
    absorbed, walls = absorption(*room, people, floor_alpha, wall_alpha, ceiling_alpha)
    one_pair = absorbed - walls / 2 * wall_alpha
    wrong = {
        "people_forgotten": absorbed - PERSON * people,
        "two_walls_instead_of_four": one_pair,
        "ceiling_forgotten": absorbed - length_m * width_m * ceiling_alpha,
    }
    results = {
        name: {"absorption_m2": value, "time_s": 0.161 * volume / value}
        for name, value in wrong.items()
    }
    if target_s is not None:
        missing, _ = treated(volume, absorbed, wall_alpha, panel_alpha, target_s)
        results["wall_behind_the_panels_counted"] = {"panels_m2": missing / panel_alpha}
        for name, value in wrong.items():
            less, area = treated(volume, value, wall_alpha, panel_alpha, target_s)
            results[name].update({"missing_m2": less, "panels_m2": area})
    return results


def solve(
    *,
    length_m,
    width_m,
    height_m,
    people,
    target_s=None,
    floor_alpha=None,
    wall_alpha=None,
    ceiling_alpha=None,
    panel_alpha=None,
    free_percent=None,
    floor=None,
    wall=None,
    ceiling=None,
    panel=None,
    **bands,
):
    """List surfaces one by one, and cover the walls by halving until the time is reached."""
    cases = [("", floor_alpha, wall_alpha, ceiling_alpha, panel_alpha)]
    if bands:
        cases = [
            (
                f"{band} Hz",
                *[bands[f"{what}_{band}"] for what in ("floor", "wall", "ceiling", "panel")],
            )
            for band in BANDS
        ]
    ground = length_m * width_m
    sides = [length_m * height_m] * 2 + [width_m * height_m] * 2
    upright = math.fsum(sides)
    best = None
    for name, below, beside, above, covered in cases:

        def seconds(area, below=below, beside=beside, above=above, covered=covered):
            parts = [ground * below, ground * above, PERSON * people]
            parts += [side * beside for side in sides]
            parts += [area * (covered - beside)] if area else []
            return 0.161 * ground * height_m / math.fsum(parts)

        now = {
            "wall_m2": upright,
            "absorption_m2": 0.161 * ground * height_m / seconds(0.0),
            "time_s": seconds(0.0),
        }
        if target_s is None:
            return now
        low, high = 0.0, 100 * upright
        for _ in range(80):
            area = (low + high) / 2
            if seconds(area) > target_s:
                low = area
            else:
                high = area
        now["missing_m2"] = area * (covered - beside)
        now["panels_m2"] = area
        if name:
            now["governing"] = name
        if best is None or area > best["panels_m2"]:
            best = now
    if free_percent is not None:
        best["fits"] = best["panels_m2"] / upright <= free_percent / 100
    return best
