"""Expected answer: dimensions that hold in the drawing, and areas of the outlines they make."""

from pathlib import Path

from aec_verify import Number, verify

# The verifier keeps its own copy: that in the workspace belongs to the agent.
drawing = (Path(__file__).parent / "inputs/wall.svg").read_text(encoding="utf-8")
for text in ("350 (C)", "2900 (C)", "3200 (C)", "+4.450 (B)", "DETAIL B  1:20 (C)", "1500 centres"):
    assert text in drawing, text
assert 'd="M 0 0 H 18 v 14 h 9 v -14 H 46"' in drawing

# In metres, levels above the datum.
TOE, STEM, BASE, UNDERSIDE, FOOT, GROUND = 0.8, 0.35, 2.9, 0.5, 0.9, 1.3
BAYS = ((4.0, 4.45), (5.6, 4.45), (3.2, 3.65))  # length, top of the wall
PAPER = 20 * 1.5 / 1000  # what one unit of the enlarged detail at 1:20 measures
KEY_WIDTH, KEY_DEPTH = 9 * PAPER, 14 * PAPER
EDGE, SPACING = 0.6, 1.5


def area(outline: list[tuple[float, float]]) -> float:
    """Return the area within a closed outline."""
    corners = zip(outline, outline[1:] + outline[:1])
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in corners)) / 2


def section(top: float) -> list[tuple[float, float]]:
    """Return the outline of stem, base and key, from the toe all the way round."""
    back, bottom = TOE + STEM, UNDERSIDE - KEY_DEPTH
    return [
        (0, FOOT),
        (TOE, FOOT),
        (TOE, top),
        (back, top),
        (back, FOOT),
        (BASE, FOOT),
        (BASE, UNDERSIDE),
        (TOE + KEY_WIDTH, UNDERSIDE),
        (TOE + KEY_WIDTH, bottom),
        (TOE, bottom),
        (TOE, UNDERSIDE),
        (0, UNDERSIDE),
    ]


def weep_holes(bay: float) -> int:
    """Return the least number of holes whose gaps are not too wide."""
    gaps = 1
    while (bay - 2 * EDGE) / gaps > SPACING + 1e-9:
        gaps += 1
    return gaps + 1


verify(
    {
        "stem_height_mm": Number(round(1000 * (BAYS[0][1] - FOOT)), weight=0.1),
        "heel_mm": Number(round(1000 * (BASE - TOE - STEM)), weight=0.15),
        "length_mm": Number(round(1000 * sum(bay for bay, _ in BAYS)), weight=0.15),
        "key_width_mm": Number(1000 * KEY_WIDTH, rel=0.02, weight=0.1),
        "key_depth_mm": Number(1000 * KEY_DEPTH, rel=0.02, weight=0.1),
        "weep_holes": Number(sum(weep_holes(bay) for bay, _ in BAYS), weight=0.15),
        "front_face_m2": Number(
            sum(area([(0, GROUND), (bay, GROUND), (bay, top), (0, top)]) for bay, top in BAYS),
            rel=0.003,
            weight=0.1,
        ),
        "concrete_m3": Number(
            sum(bay * area(section(top)) for bay, top in BAYS), rel=0.003, weight=0.15
        ),
    },
    output="/workspace/output.jsonl",
)
