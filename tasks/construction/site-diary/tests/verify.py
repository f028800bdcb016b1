"""Expected answer: sums over a diary, whose entries name, correct and revoke one another.

The sums are those of the program that wrote the diary; ``solution`` finds them in its text.
"""

from aec_verify import Number, verify

# m³ for each element: as first noted, of that sent back, by later corrections, taken out again.
DELIVERED = {
    "core of block A": 240.5,
    "core of block B": 227.0,
    "core of block C": 285.0,
    "raft of block A": 292.5,
    "raft of block B": 240.5,
    "raft of block C": 257.0,
    "slabs of block A": 258.5,
    "slabs of block B": 178.5,
    "slabs of block C": 262.5,
}
SENT_BACK = {
    "core of block A": 35.5,
    "core of block B": 22.0,
    "core of block C": 42.0,
    "raft of block A": 27.5,
    "raft of block B": 15.0,
    "raft of block C": 20.0,
    "slabs of block A": 23.0,
    "slabs of block B": 19.5,
    "slabs of block C": 23.5,
}
CORRECTED = {
    "core of block A": -5.5,
    "core of block B": -4.0,
    "core of block C": -7.5,
    "raft of block A": -3.0,
    "raft of block B": -7.5,
    "raft of block C": -4.0,
    "slabs of block A": -3.5,
    "slabs of block B": -3.0,
    "slabs of block C": -4.0,
}
TAKEN_OUT = {
    "core of block A": 26.5,
    "core of block C": 21.0,
    "raft of block A": 39.5,
    "raft of block B": 30.5,
    "raft of block C": 28.5,
    "slabs of block A": 31.0,
    "slabs of block B": 10.0,
    "slabs of block C": 19.0,
}
WIND_MIN = 4470

stayed = {
    element: volume
    - SENT_BACK.get(element, 0)
    + CORRECTED.get(element, 0)
    - TAKEN_OUT.get(element, 0)
    for element, volume in DELIVERED.items()
}

verify(
    {
        "total_m3": Number(sum(stayed.values()), abs=0.2, weight=0.35),
        "raft_b_m3": Number(stayed["raft of block B"], abs=0.2, weight=0.25),
        "taken_out_m3": Number(sum(TAKEN_OUT.values()), abs=0.2, weight=0.2),
        "wind_h": Number(WIND_MIN / 60, abs=0.1, weight=0.2),
    },
    output="/workspace/output.jsonl",
)
