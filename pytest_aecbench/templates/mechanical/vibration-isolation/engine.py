"""Machine on springs: how much of its vibration reaches the floor."""

from __future__ import annotations

import math

GRAVITY = 9.81
# stiffness in kN/m and largest load in kN of the springs on the list
SPRINGS = {
    "F1": (15, 0.6),
    "F2": (25, 1.0),
    "F3": (40, 1.5),
    "F4": (60, 2.2),
    "F5": (90, 3.2),
    "F6": (130, 4.5),
    "F7": (190, 6.5),
    "F8": (280, 9.0),
    "F9": (400, 12.5),
    "F10": (580, 18.0),
    "F11": (840, 25.0),
}


class Reject(ValueError):
    """A machine that springs do not isolate."""


def transmitted(ratio, damping):
    """Return the share of the force that reaches the floor."""
    damped = (2 * damping * ratio) ** 2
    return math.sqrt((1 + damped) / ((1 - ratio**2) ** 2 + damped))


def results(mass, rpm, stiffness, damping):
    """Return all results for a whole stiffness in N/m."""
    natural = math.sqrt(stiffness / mass) / (2 * math.pi)
    ratio = rpm / 60 / natural
    if not 1.7 < ratio < 15:
        raise Reject("a frequency ratio outside 1.7 to 15")
    share = transmitted(ratio, damping)
    return {
        "natural_hz": natural,
        "deflection_mm": 1000 * mass * GRAVITY / stiffness,
        "ratio": ratio,
        "transmissibility_percent": 100 * share,
        "isolation_percent": 100 * (1 - share),
    }


def ratio_for(share, damping):
    """Return the frequency ratio at which a share of the force is transmitted."""
    # a quadratic equation for the square of the ratio
    a = share**2
    b = 4 * damping**2 * (a - 1) - 2 * a
    return math.sqrt((math.sqrt(b**2 - 4 * a * (a - 1)) - b) / (2 * a))


def stiffest(limit, load):
    """Return the stiffest spring that is soft enough and carries its load."""
    able = [name for name, (one, most) in SPRINGS.items() if one <= limit and most >= load]
    if not able:
        raise Reject("no spring of the list is soft and strong enough")
    return max(able, key=lambda name: SPRINGS[name][0])


def compute(
    *,
    mass_kg,
    rpm,
    springs,
    mount,
    damping,
    stiffness_kn_m=None,
    unbalance_kg_mm=None,
    required_percent=None,
):
    """Return what springs achieve, or the springs for what is required."""
    if stiffness_kn_m is None:
        ratio = ratio_for(1 - required_percent / 100, damping)
        limit = mass_kg * (2 * math.pi * rpm / 60 / ratio) ** 2 / springs / 1000
        name = stiffest(limit, mass_kg * GRAVITY / springs / 1000)
        if name == "F11":
            raise Reject("the stiffest spring of the list")
        found = results(mass_kg, rpm, 1000 * springs * SPRINGS[name][0], damping)
        return {"largest_kn_m": limit, "spring": name, **found}
    found = results(mass_kg, rpm, 1000 * springs * stiffness_kn_m, damping)
    if unbalance_kg_mm is not None:
        force = unbalance_kg_mm / 1000 * (2 * math.pi * rpm / 60) ** 2
        found["floor_n"] = force * found["transmissibility_percent"] / 100
        allowed = 100 - required_percent
        if not 0.4 < found["transmissibility_percent"] / allowed < 3:
            raise Reject("isolation far from what is required")
        found["suffices"] = found["transmissibility_percent"] <= allowed
    return found


def mistakes(
    *,
    mass_kg,
    rpm,
    springs,
    mount,
    damping,
    stiffness_kn_m=None,
    unbalance_kg_mm=None,
    required_percent=None,
):
    """Return the usual wrong answers."""
    if stiffness_kn_m is None:
        share = 1 - required_percent / 100
        turning = 2 * math.pi * rpm / 60

        def limits(ratio, speed=turning, count=springs):
            return {"largest_kn_m": mass_kg * (speed / ratio) ** 2 / count / 1000}

        right = ratio_for(share, damping)
        found = {
            "frequency_without_two_pi": limits(right, rpm / 60),
            "stiffness_of_all_springs": limits(right, count=1),
            "isolation_for_transmission": limits(ratio_for(1 - share, damping)),
        }
        undamped = limits(math.sqrt(1 + 1 / share))
        if damping > 0.02:
            found["damping_forgotten"] = undamped
        return found
    right = results(mass_kg, rpm, 1000 * springs * stiffness_kn_m, damping)
    one = math.sqrt(1 / springs)
    found = {
        "stiffness_of_one_spring": {
            "natural_hz": right["natural_hz"] * one,
            "deflection_mm": right["deflection_mm"] * springs,
            "ratio": right["ratio"] / one,
            "transmissibility_percent": 100 * transmitted(right["ratio"] / one, damping),
        },
        "radians_for_hertz": {
            "natural_hz": 2 * math.pi * right["natural_hz"],
            "ratio": right["ratio"] / (2 * math.pi),
        },
    }
    if unbalance_kg_mm is not None:
        found["speed_in_hertz"] = {
            "floor_n": right["transmissibility_percent"] / 1e5 * unbalance_kg_mm * (rpm / 60) ** 2
        }
        bare = 100 * transmitted(right["ratio"], 0.0)
        if damping > 0.02:
            found["damping_forgotten"] = {
                "transmissibility_percent": bare,
                "floor_n": bare / 1e5 * unbalance_kg_mm * (math.pi * rpm / 30) ** 2,
            }
    return found


def through(pulsation, mass, stiffness, damping):
    """Return the transmitted share as the amount of a complex ratio of forces."""
    link = stiffness + 1j * pulsation * 2 * damping * math.sqrt(stiffness * mass)
    return abs(link / (link - mass * pulsation**2))


def solve(
    *,
    mass_kg,
    rpm,
    springs,
    mount,
    damping,
    stiffness_kn_m=None,
    unbalance_kg_mm=None,
    required_percent=None,
):
    """Divide complex stiffnesses; find the largest stiffness by halving."""
    pulsation = math.pi * rpm / 30
    answer = {}
    each = stiffness_kn_m
    if each is None:
        # Above r = √2 the transmitted share grows with the stiffness.
        low, high = 0.0, mass_kg * pulsation**2 / 2
        for _ in range(100):
            whole = (low + high) / 2
            if 100 * (1 - through(pulsation, mass_kg, whole, damping)) >= required_percent:
                low = whole
            else:
                high = whole
        answer["largest_kn_m"] = whole / springs / 1e3
        kilonewtons = mass_kg * GRAVITY / 1e3 / springs
        for name, (kn_m, most) in SPRINGS.items():
            if kn_m * springs * 1e3 <= whole and kilonewtons <= most:
                answer["spring"], each = name, kn_m
    whole = each * springs * 1e3
    sag = mass_kg * GRAVITY / whole
    share = through(pulsation, mass_kg, whole, damping)
    answer["natural_hz"] = math.sqrt(GRAVITY / sag) / math.tau
    answer["deflection_mm"] = 1e3 * sag
    answer["ratio"] = pulsation * math.sqrt(sag / GRAVITY)
    answer["transmissibility_percent"] = share * 100
    answer["isolation_percent"] = 100 - share * 100
    if unbalance_kg_mm is not None:
        answer["floor_n"] = share * unbalance_kg_mm * pulsation**2 / 1e3
        answer["suffices"] = 100 - share * 100 >= required_percent
    return answer


def files(
    *,
    mass_kg,
    rpm,
    springs,
    mount,
    damping,
    stiffness_kn_m=None,
    unbalance_kg_mm=None,
    required_percent=None,
):
    """Return the list of springs."""
    rows = [f"{name},{stiffness},{most}" for name, (stiffness, most) in SPRINGS.items()]
    return {"springs.csv": "\n".join(["spring,stiffness_kn_m,largest_load_kn", *rows]) + "\n"}
