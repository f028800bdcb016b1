"""Deflection and bending of a simply supported steel beam."""

from __future__ import annotations

import math

MODULUS = 210e6  # kN/m², 210 GPa
GRAVITY = 9.81
# kg/m, mm, cm⁴, cm³: mass, depth, second moment of area, elastic section modulus
SECTIONS = {
    "IPE 200": (22.4, 200, 1943, 194),
    "IPE 220": (26.2, 220, 2772, 252),
    "IPE 240": (30.7, 240, 3892, 324),
    "IPE 270": (36.1, 270, 5790, 429),
    "IPE 300": (42.2, 300, 8356, 557),
    "IPE 330": (49.1, 330, 11770, 713),
    "IPE 360": (57.1, 360, 16270, 904),
    "IPE 400": (66.3, 400, 23130, 1156),
    "IPE 450": (77.6, 450, 33740, 1500),
    "IPE 500": (90.7, 500, 48200, 1928),
    "HEA 200": (42.3, 190, 3692, 389),
    "HEA 220": (50.5, 210, 5410, 515),
    "HEA 240": (60.3, 230, 7763, 675),
    "HEA 260": (68.2, 250, 10450, 836),
    "HEA 280": (76.4, 270, 13670, 1013),
    "HEA 300": (88.3, 290, 18260, 1260),
    "HEA 320": (97.6, 310, 22930, 1479),
    "HEA 340": (105, 330, 27690, 1678),
    "HEA 360": (112, 350, 33090, 1891),
    "HEA 400": (125, 390, 45070, 2311),
}


class Reject(ValueError):
    """A beam that makes no sense."""


def deflection_mm(span, line, point, inertia_cm4):
    """Return the deflection at midspan for loads in kN/m and kN."""
    stiffness = MODULUS * inertia_cm4 * 1e-8
    return 1000 * (5 * line * span**4 / (384 * stiffness) + point * span**3 / (48 * stiffness))


def moment_of(span, line, point):
    """Return the moment at midspan."""
    return line * span**2 / 8 + point * span / 4


def check(name, span, line, point, yield_mpa, with_self_weight=True):
    """Return the deflection of a section and the share of its bending resistance in use."""
    mass, _, inertia, modulus = SECTIONS[name]
    whole = line + (mass * GRAVITY / 1000 if with_self_weight else 0)
    resistance = modulus * yield_mpa / 1000
    used = moment_of(span, 1.35 * whole, 1.5 * point) / resistance
    return deflection_mm(span, whole, point, inertia), used


def lightest(span, line, point, yield_mpa, limit, depth_mm, **kind):
    """Return the lightest section that is shallow, strong and stiff enough."""
    for name in sorted(SECTIONS, key=lambda one: SECTIONS[one][0]):
        if SECTIONS[name][1] <= depth_mm:
            deflection, used = check(name, span, line, point, yield_mpa, **kind)
            if deflection <= limit and used <= 1:
                return name
    raise Reject("no section of the list suffices")


def chosen(name, span, line, point, yield_mpa):
    """Return the results for a section of the list."""
    deflection, used = check(name, span, line, point, yield_mpa)
    return {"section": name, "deflection_mm": deflection, "utilisation": used}


def compute(
    *,
    span_m,
    line_kn_m,
    point_kn,
    inertia_cm4=None,
    use=None,
    limit_ratio=None,
    yield_mpa=None,
    depth_mm=None,
):
    """Return forces and deflection of a given section, or the lightest section."""
    if depth_mm is not None:
        limit = 1000 * span_m / limit_ratio
        name = lightest(span_m, line_kn_m, point_kn, yield_mpa, limit, depth_mm)
        return chosen(name, span_m, line_kn_m, point_kn, yield_mpa)
    deflection = deflection_mm(span_m, line_kn_m, point_kn, inertia_cm4)
    found = {
        "moment_knm": moment_of(span_m, line_kn_m, point_kn),
        "shear_kn": line_kn_m * span_m / 2 + point_kn / 2,
        "deflection_mm": deflection,
    }
    if limit_ratio is not None:
        limit = 1000 * span_m / limit_ratio
        if not 0.5 < deflection / limit < 1.8:
            raise Reject("deflection far from its limit")
        found["required_inertia_cm4"] = inertia_cm4 * deflection / limit
        found["within_limit"] = deflection <= limit
    elif not span_m / 1.2 < deflection < 10 * span_m:
        raise Reject("a beam far too stiff or too weak")
    return found


def wrong_choices(loads, yield_mpa, limit_ratio, depth_mm):
    """Return what follows from forgetting a condition, where it makes a difference."""
    limit = 1000 * loads[0] / limit_ratio
    right = lightest(*loads, yield_mpa, limit, depth_mm)
    name = lightest(*loads, yield_mpa, limit, depth_mm, with_self_weight=False)
    deflection, used = check(name, *loads, yield_mpa, with_self_weight=False)
    others = {
        "deflection_forgotten": lightest(*loads, yield_mpa, math.inf, depth_mm),
        "bending_forgotten": lightest(*loads, math.inf, limit, depth_mm),
        "depth_forgotten": lightest(*loads, yield_mpa, limit, math.inf),
    }
    wrong = {
        key: chosen(section, *loads, yield_mpa)
        for key, section in others.items()
        if section != right
    }
    wrong["self_weight_left_out"] = {
        "section": name,
        "deflection_mm": deflection,
        "utilisation": used,
    }
    return wrong


def mistakes(
    *,
    span_m,
    line_kn_m,
    point_kn,
    inertia_cm4=None,
    use=None,
    limit_ratio=None,
    yield_mpa=None,
    depth_mm=None,
):
    """Return the usual wrong answers."""
    if depth_mm is not None:
        return wrong_choices((span_m, line_kn_m, point_kn), yield_mpa, limit_ratio, depth_mm)
    alone = deflection_mm(span_m, line_kn_m, 0.0, inertia_cm4)
    spread = deflection_mm(span_m, line_kn_m + point_kn / span_m, 0.0, inertia_cm4)
    right = deflection_mm(span_m, line_kn_m, point_kn, inertia_cm4)
    fixed = right - 4 / 5 * alone
    return {
        "inertia_in_wrong_power": {"deflection_mm": right / 100},
        "point_load_forgotten": {
            "deflection_mm": alone,
            "moment_knm": moment_of(span_m, line_kn_m, 0.0),
        },
        "point_load_spread_out": {
            "deflection_mm": spread,
            "moment_knm": moment_of(span_m, line_kn_m + point_kn / span_m, 0.0),
        },
        "factor_of_fixed_ends": {"deflection_mm": fixed},
    }


def bent(span, line, point, inertia_cm4, slices=400):
    """Integrate curvature times the moment of a unit load (Simpson, exact for these moments)."""
    half = span / 2
    reaction = (line * span + point) / 2
    width = half / slices
    terms = []
    for index in range(slices + 1):
        x = index * width
        weight = 1 if index in (0, slices) else 4 if index % 2 else 2
        terms.append(weight * (reaction * x - line * x * x / 2) * x / 2)
    area = 2 * width / 3 * math.fsum(terms)
    return area / (MODULUS * inertia_cm4 / 1e8) * 1e3


def solve(
    *,
    span_m,
    line_kn_m,
    point_kn,
    inertia_cm4=None,
    use=None,
    limit_ratio=None,
    yield_mpa=None,
    depth_mm=None,
):
    """Find deflections by virtual work, and sections by their required values."""
    reaction = (line_kn_m * span_m + point_kn) / 2
    if depth_mm is None:
        sag = bent(span_m, line_kn_m, point_kn, inertia_cm4)
        half = span_m / 2
        answer = {
            "moment_knm": reaction * half - line_kn_m * half * half / 2,
            "shear_kn": reaction,
            "deflection_mm": sag,
        }
        if limit_ratio is not None:
            answer["required_inertia_cm4"] = inertia_cm4 * sag * limit_ratio / (span_m * 1000)
            answer["within_limit"] = sag * limit_ratio <= 1000 * span_m
        return answer
    best = None
    for name, (mass, depth, inertia, modulus) in SECTIONS.items():
        line = line_kn_m + mass * GRAVITY / 1000
        design = (1.35 * line * span_m + 1.5 * 2 * point_kn) * span_m / 8
        stress = design / modulus * 1000
        sag = bent(span_m, line, point_kn, inertia, 2)
        good = depth <= depth_mm and stress <= yield_mpa and sag * limit_ratio <= 1000 * span_m
        if good and (best is None or mass < SECTIONS[best["section"]][0]):
            best = {"section": name, "deflection_mm": sag, "utilisation": stress / yield_mpa}
    return best


def files(
    *,
    span_m,
    line_kn_m,
    point_kn,
    inertia_cm4=None,
    use=None,
    limit_ratio=None,
    yield_mpa=None,
    depth_mm=None,
):
    """Return the list of sections."""
    rows = ["section,mass_kg_m,depth_mm,inertia_cm4,elastic_modulus_cm3"]
    rows += [",".join([name] + [str(one) for one in row]) for name, row in SECTIONS.items()]
    return {"sections.csv": "\n".join(rows) + "\n"}
