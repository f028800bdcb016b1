"""Expected answer: the duty of a pump set, from facts that lie far apart in a specification."""

from aec_verify import Choice, Entries, Number, verify

# The facts, and where they are.
LOAD, LOSS, WORKING_PRESSURE, NOMINAL_DIAMETER = 418.0, 148.0, 640.0, 150  # section 31
LEAVING, RETURNING = 6.0, 14.0  # 3.7, and 3.9 for the laboratory wing
SURPLUS = 1.10  # 5.12, an exception to 5.11
# The roof deck is in the open air (1.4), so the circuit has glycol (14.9): 30 % since A2.7.
DENSITY, SPECIFIC_HEAT, FACTOR_ON_LOSSES = 1.030, 3.77, 1.23  # appendix B; kg/L, kJ/(kg K)
SURPLUS_OF_HEAD = 1.10  # 22.15
# Steel on roofs (12.3), so 9.4 and not 9.5; A1.4 raises the least pressure to 1.05 MPa.
TEST_FACTOR, LEAST_TEST_PRESSURE = 1.5, 1050.0
INDOORS, OUTDOORS = ((50, 25), (100, 30), (200, 40)), 15  # 17.5, 17.8; mm

from_load = LOAD / (DENSITY * SPECIFIC_HEAT * (RETURNING - LEAVING))
flow = SURPLUS * from_load
head = LOSS * (flow / from_load) ** 2 * FACTOR_ON_LOSSES * SURPLUS_OF_HEAD
test_pressure = max(TEST_FACTOR * WORKING_PRESSURE, LEAST_TEST_PRESSURE)
insulation = next(mm for size, mm in INDOORS if NOMINAL_DIAMETER <= size) + OUTDOORS

DECIDING = {
    "return_temperature": "3.9",
    "glycol": "A2.7",
    "surplus": "5.12",
    "test_pressure": "A1.4",
    "insulation": "17.8",
}

verify(
    {
        "flow_l_s": Number(flow, rel=0.003, weight=0.25),
        "head_kpa": Number(head, rel=0.005, weight=0.25),
        "test_pressure_kpa": Number(test_pressure, rel=0.001, weight=0.1),
        "insulation_mm": Number(insulation, weight=0.1),
        "clauses": Entries(
            {question: Choice(clause, [clause]) for question, clause in DECIDING.items()},
            weight=0.3,
        ),
    },
    output="/workspace/output.jsonl",
)
