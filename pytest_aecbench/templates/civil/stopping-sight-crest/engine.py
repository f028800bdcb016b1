"""Stopping sight distance, and the crest curve that gives it."""

from __future__ import annotations

import math

GRAVITY = 9.81


class Reject(ValueError):
    """A road that makes no sense."""


def stopping(speed_kmh, reaction_s, friction, grade_percent):
    """Return the distance while reacting and the distance while braking."""
    speed = speed_kmh / 3.6
    return speed * reaction_s, speed**2 / (2 * GRAVITY * (friction + grade_percent / 100))


def sight_constant(eye_m, object_m):
    """Return 100 (√(2 h1) + √(2 h2))², in per cent times metres."""
    return 100 * (math.sqrt(2 * eye_m) + math.sqrt(2 * object_m)) ** 2


def least_length(sight, change, constant):
    """Return the length of the crest curve for a sight distance."""
    inside = change * sight**2 / constant
    if inside >= sight:
        return inside
    return 2 * sight - constant / change


def sight_on(length, change, constant):
    """Return the sight distance that a crest curve gives."""
    inside = math.sqrt(constant * length / change)
    if inside <= length:
        return inside
    return (length + constant / change) / 2


def speed_for(sight, reaction_s, friction, grade_percent):
    """Return the speed in km/h at which a car stops within the sight distance."""
    braking = 1 / (2 * GRAVITY * (friction + grade_percent / 100))
    root = math.sqrt(reaction_s**2 + 4 * braking * sight)
    return 3.6 * (root - reaction_s) / (2 * braking)


def compute(
    *,
    reaction_s,
    surface,
    friction,
    grade_percent,
    speed_kmh,
    eye_m=None,
    object_m=None,
    change_percent=None,
    curve_m=None,
    state=None,
):
    """Return the curve for a speed, or the speed for a curve."""
    reacting, braking = stopping(speed_kmh, reaction_s, friction, grade_percent)
    found = {"reaction_m": reacting, "braking_m": braking, "sight_m": reacting + braking}
    if curve_m is None:
        return found
    constant = sight_constant(eye_m, object_m)
    if state == "existing":
        sight = sight_on(curve_m, change_percent, constant)
        speed = speed_for(sight, reaction_s, friction, grade_percent)
        if not 30 <= speed <= 140:
            raise Reject("a speed outside 30 to 140 km/h")
        if not 0.7 < speed / speed_kmh < 1.4:
            raise Reject("speed far from the limit")
        return {
            "sight_m": sight,
            "stopping_m": reacting + braking,
            "safe_speed_kmh": speed,
            "suffices": speed >= speed_kmh,
        }
    length = least_length(found["sight_m"], change_percent, constant)
    if length < 0.3 * found["sight_m"]:
        raise Reject("hardly any curve is needed")
    if not 0.5 < length / curve_m < 2:
        raise Reject("curve far from the least length")
    found["least_length_m"] = length
    found["suffices"] = curve_m >= length
    return found


def guards(
    *,
    reaction_s,
    surface,
    friction,
    grade_percent,
    speed_kmh,
    eye_m=None,
    object_m=None,
    change_percent=None,
    curve_m=None,
    state=None,
):
    """Return how far sight distance and length of the curve are apart."""
    if curve_m is None:
        return {}
    constant = sight_constant(eye_m, object_m)
    if state == "existing":
        return {
            "sight as long as the curve": sight_on(curve_m, change_percent, constant) / curve_m - 1
        }
    sight = math.fsum(stopping(speed_kmh, reaction_s, friction, grade_percent))
    return {"sight as long as the curve": sight * change_percent / constant - 1}


def mistakes(
    *,
    reaction_s,
    surface,
    friction,
    grade_percent,
    speed_kmh,
    eye_m=None,
    object_m=None,
    change_percent=None,
    curve_m=None,
    state=None,
):
    """Return the usual wrong answers."""
    if state == "existing":
        return wrong_speeds(
            reaction_s, friction, grade_percent, eye_m, object_m, change_percent, curve_m
        )
    reacting, braking = stopping(speed_kmh, reaction_s, friction, grade_percent)
    other = stopping(speed_kmh, reaction_s, friction, -grade_percent)[1]
    wrong = {
        "sign_of_the_grade": {"braking_m": other, "sight_m": reacting + other},
        "reaction_left_out": {"reaction_m": 0.0, "sight_m": braking},
        "speed_in_kilometres_per_hour": {
            "reaction_m": 3.6 * reacting,
            "braking_m": 12.96 * braking,
        },
    }
    if curve_m is not None:
        sight, constant = reacting + braking, sight_constant(eye_m, object_m)
        inside = change_percent * sight**2 / constant
        outside = 2 * sight - constant / change_percent
        wrong["formula_of_the_other_case"] = {
            "least_length_m": outside if inside >= sight else inside
        }
        half = sight_constant(eye_m / 2, object_m / 2)
        wrong["heights_not_doubled"] = {"least_length_m": least_length(sight, change_percent, half)}
    return wrong


def wrong_speeds(reaction_s, friction, grade_percent, eye_m, object_m, change_percent, curve_m):
    """Return wrong answers for a curve that exists."""
    constant = sight_constant(eye_m, object_m)
    right = sight_on(curve_m, change_percent, constant)
    inside = math.sqrt(constant * curve_m / change_percent)
    outside = (curve_m + constant / change_percent) / 2
    other = outside if inside <= curve_m else inside
    return {
        "sign_of_the_grade": {
            "safe_speed_kmh": speed_for(right, reaction_s, friction, -grade_percent)
        },
        "formula_of_the_other_case": {
            "sight_m": other,
            "safe_speed_kmh": speed_for(other, reaction_s, friction, grade_percent),
        },
        "reaction_left_out": {"safe_speed_kmh": speed_for(right, 0.0, friction, grade_percent)},
    }


def seen(length, change, eye, target):
    """Return the sight distance over a parabola, by halving.

    The line of sight touches the curve; its grade relative to the first tangent is what is sought.
    """
    rate = change / 100 / length  # change of grade per metre

    def reach(height, grade_there):
        """Return the distance from the touching point to where the road is ``height`` below."""
        along = grade_there / rate  # curve that is left on this side
        if rate * along**2 / 2 >= height:
            return math.sqrt(2 * height / rate)
        return along + (height - rate * along**2 / 2) / grade_there

    low, high = 1e-6 * change / 100, (1 - 1e-6) * change / 100

    def whole(grade):
        return reach(eye, grade) + reach(target, change / 100 - grade)

    # The shortest sight counts: it is a convex function of the grade of the line.
    for _ in range(90):
        third = (high - low) / 3
        if whole(low + third) <= whole(high - third):
            high = high - third
        else:
            low = low + third
    return whole((low + high) / 2)


def bisected(low, high, rises_above):
    """Return where a rising condition starts to hold."""
    for _ in range(56):
        middle = (low + high) / 2
        if rises_above(middle):
            high = middle
        else:
            low = middle
    return (low + high) / 2


def solve(
    *,
    reaction_s,
    surface,
    friction,
    grade_percent,
    speed_kmh,
    eye_m=None,
    object_m=None,
    change_percent=None,
    curve_m=None,
    state=None,
):
    """Balance energies, look along the parabola, and halve intervals for what is sought."""
    slowing = GRAVITY * (friction + grade_percent / 100)

    def stop(kmh):
        metres = kmh * 1000 / 3600
        return reaction_s * metres + metres * metres / 2 / slowing

    metres = speed_kmh * 1000 / 3600
    answer = {
        "reaction_m": reaction_s * metres,
        "braking_m": metres * metres / 2 / slowing,
        "sight_m": stop(speed_kmh),
    }
    if curve_m is None:
        return answer
    if state == "existing":
        sight = seen(curve_m, change_percent, eye_m, object_m)
        speed = bisected(1.0, 1000.0, lambda kmh: stop(kmh) >= sight)
        return {
            "sight_m": sight,
            "stopping_m": answer["sight_m"],
            "safe_speed_kmh": speed,
            "suffices": answer["sight_m"] <= sight,
        }
    least = bisected(
        1.0,
        5000.0,
        lambda length: seen(length, change_percent, eye_m, object_m) >= answer["sight_m"],
    )
    answer["least_length_m"] = least
    answer["suffices"] = curve_m >= least
    return answer
