"""Time the way from a ledger to pandas and Arrow against the least that it can cost.

Run ``python benchmarks/notebooks.py [--records N]`` from the project's directory. The floor is
measured in the same run: list the ledger's files with their sizes and times, read all rows of the
index with bare SQLite, parse their JSON, and hand the columns to pandas as they are. Times are CPU
time, because machines are shared.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sqlite3
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import pandas
import pyarrow.parquet  # noqa: F401  (so that its import is not measured)

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_aecbench import records
from pytest_aecbench.ledger.index_file import index_path
from tests.ledgers import records as made_up

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds(action: Callable[[], object]) -> float:
    """Return the least CPU time of three."""
    found = []
    for _ in range(3):
        gc.collect()
        started = process_time()
        result = action()
        found.append(process_time() - started)
        del result  # only now: giving the memory back is no part of the action
    return min(found)


def read_plainly(ledger: Path) -> pandas.DataFrame:
    """Return the rows of the index as a data frame, without looking at what they mean."""
    for entry in os.scandir(ledger / "nightly"):
        entry.stat()
    path = index_path(ledger)
    assert path is not None
    with sqlite3.connect(path) as connection:
        query = "SELECT own, name, details, task, agent, shared FROM records ORDER BY name"
        found = [(*json.loads(own), *rest) for own, *rest in connection.execute(query)]
        parts = dict(connection.execute("SELECT id, data FROM parts"))
    columns = dict(enumerate(zip(*found, strict=True)))
    frame = pandas.DataFrame(columns)
    for column in list(columns)[-3:]:
        frame[column] = frame[column].map(parts).astype("category")
    return frame


def main() -> None:
    parser = argparse.ArgumentParser(description="Time records to pandas and Arrow.")
    parser.add_argument("--records", type=int, default=100_000, metavar="N")
    number = parser.parse_args().records
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        ledger = root / "ledger"
        (ledger / "nightly").mkdir(parents=True)
        for record in made_up(number):
            (ledger / f"nightly/{record.trial_id}.json").write_bytes(record.to_json())
        started = process_time()
        found = records(ledger=ledger)
        print(f"{number} records; first reading {process_time() - started:.2f} s")
        floor = seconds(lambda: read_plainly(ledger))
        print(f"floor: SQLite, JSON, pandas   {floor:6.2f} s")
        for what, action in {
            "records()": lambda: records(ledger=ledger),
            "records().to_pandas()": lambda: records(ledger=ledger).to_pandas(),
            "  of which to_pandas()": found.to_pandas,
            "  to_arrow()": found.to_arrow,
            "  to_parquet()": lambda: found.to_parquet(root / "out.parquet"),
            "  to_csv()": lambda: found.to_csv(root / "out.csv"),
        }.items():
            took = seconds(action)
            print(f"{what:29} {took:6.2f} s, {took / floor:.2f} of the floor")


if __name__ == "__main__":
    main()
