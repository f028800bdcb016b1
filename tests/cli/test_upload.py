"""``aec-bench ledger export --to``: what BigQuery is documented to load, in Cloud Storage."""

from __future__ import annotations

import io
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_aecbench.cli.upload import Target
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.ledger.record import TrialRecord
from pytest_aecbench.ledger.store import Ledger
from tests.cli.conftest import Run
from tests.ledgers import records
from tests.standins.batch import BatchServer
from tests.standins.buckets import Buckets

EXPORT = ("ledger", "export", "--to")
COUNT = 40

# https://cloud.google.com/bigquery/docs/schemas: names of columns and reserved beginnings
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
RESERVED = ("_TABLE_", "_FILE_", "_PARTITION", "_ROW_TIMESTAMP", "__ROOT__", "_COLIDENTIFIER")
# https://cloud.google.com/bigquery/docs/reference/rest/v2/tables#TableFieldSchema
TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?", re.ASCII
)
OF_JSON: dict[str, Any] = {
    "BOOLEAN": lambda value: isinstance(value, bool),
    "FLOAT": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "INTEGER": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53)
        or (isinstance(value, str) and -(2**63) <= int(value) < 2**63)
    ),
    "JSON": lambda value: True,
    "STRING": lambda value: isinstance(value, str),
    "TIMESTAMP": lambda value: TIMESTAMP.fullmatch(value) is not None,
}
# https://cloud.google.com/bigquery/docs/loading-data-cloud-storage-parquet#type_conversions
OF_PARQUET = {
    ("BOOLEAN", "None"): "BOOLEAN",
    ("BYTE_ARRAY", "String"): "STRING",
    ("DOUBLE", "None"): "FLOAT",
    ("INT64", "None"): "INTEGER",
    ("INT64", "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"): "TIMESTAMP",
}


@pytest.fixture
def buckets(google: BatchServer) -> Buckets:
    return google.machines.buckets


@pytest.fixture
def bucket(buckets: Buckets) -> str:
    name = f"bucket-{uuid.uuid4()}"
    buckets.create(name)
    return name


@pytest.fixture
def ledger(google_home: Path) -> Ledger:
    ledger = Ledger(google_home / "project/artefacts/ledger")
    for one in records(COUNT):
        ledger.append(one)
    return ledger


def read(buckets: Buckets, bucket: str, name: str) -> Any:
    return json.loads(buckets.read(bucket, name))


def lines(buckets: Buckets, bucket: str, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in buckets.read(bucket, name).splitlines()]


def test_lines_of_json_fit_the_schema_beside_them(
    aec_bench: Run, ledger: Ledger, buckets: Buckets, bucket: str
) -> None:
    ended = aec_bench(*EXPORT, f"gs://{bucket}/results/nightly")
    assert ended.code == 0, ended
    names = ["results/nightly/trials.jsonl", "results/nightly/trials.jsonl.schema.json"]
    assert buckets.names(bucket) == names
    assert set(ended.out.splitlines()[:2]) == {f"gs://{bucket}/{name}" for name in names}
    assert ended.out.splitlines()[2].startswith(f"{COUNT} attempts, ")
    fields = read(buckets, bucket, names[1])
    found = lines(buckets, bucket, names[0])
    assert len(found) == COUNT
    assert all(set(field) == {"name", "type", "mode"} for field in fields)
    assert all(COLUMN.fullmatch(field["name"]) for field in fields)
    assert not any(field["name"].upper().startswith(RESERVED) for field in fields)
    assert len({field["name"].lower() for field in fields}) == len(fields)
    for line in found:
        assert list(line) == [field["name"] for field in fields]
        for field in fields:
            value = line[field["name"]]
            assert value is None or OF_JSON[field["type"]](value), (field, value)
    assert {field["name"] for field in fields} >= {"trial_id", "reward", "usd", "started_at"}


def test_lines_of_json_lose_nothing(
    aec_bench: Run, ledger: Ledger, buckets: Buckets, bucket: str
) -> None:
    aec_bench(*EXPORT, f"gs://{bucket}", "--agent", "codex")
    found = lines(buckets, bucket, "trials.jsonl")
    plain = aec_bench("ledger", "export", "--agent", "codex").out.splitlines()
    assert [line["record"] for line in found] == list(map(json.loads, plain))
    for line in found:
        record = TrialRecord.from_json(json.dumps(line["record"]).encode())
        assert line["reward"] == record.evaluation.reward
        assert line["details"] == record.evaluation.details


def test_an_integer_beyond_those_of_json_is_a_text(
    aec_bench: Run, ledger: Ledger, buckets: Buckets, bucket: str
) -> None:
    (record,) = records(1, experiment="large")
    cost = record.cost.model_copy(update={"tokens_in": 2**60})
    ledger.append(record.model_copy(update={"cost": cost}))
    aec_bench(*EXPORT, f"gs://{bucket}", "--experiment", "large")
    (line,) = lines(buckets, bucket, "trials.jsonl")
    assert line["tokens_in"] == str(2**60)


@pytest.mark.needs("arrow")
def test_parquet_has_the_types_of_the_schema(
    aec_bench: Run, ledger: Ledger, buckets: Buckets, bucket: str
) -> None:
    import pyarrow.parquet

    ended = aec_bench(*EXPORT, f"gs://{bucket}/p", "--format", "parquet")
    assert ended.code == 0, ended
    file = pyarrow.parquet.ParquetFile(io.BytesIO(buckets.read(bucket, "p/trials.parquet")))
    columns = [file.schema.column(number) for number in range(len(file.schema))]
    kinds = {one.path: (one.physical_type, str(one.logical_type)) for one in columns}
    types = {
        name: OF_PARQUET[physical, logical.split(", is_from")[0]]
        for name, (physical, logical) in kinds.items()
    }
    fields = read(buckets, bucket, "p/trials.parquet.schema.json")
    assert types == {field["name"]: field["type"] for field in fields}
    table = file.read()
    assert table.num_rows == COUNT
    aec_bench(*EXPORT, f"gs://{bucket}/p")
    found = lines(buckets, bucket, "p/trials.jsonl")
    assert table.column("reward").to_pylist() == [line["reward"] for line in found]
    details = [json.loads(text) for text in table.column("details").to_pylist()]
    assert details == [line["details"] for line in found]


def test_a_failed_upload_leaves_what_was_there(
    aec_bench: Run, ledger: Ledger, buckets: Buckets, bucket: str
) -> None:
    refuse = buckets.refuse_writes(r"trials\.jsonl$")
    ended = aec_bench(*EXPORT, f"gs://{bucket}/new")
    assert ended.code != 0
    assert "Traceback" not in ended.err
    assert buckets.names(bucket) == []
    refuse.clear()
    assert aec_bench(*EXPORT, f"gs://{bucket}/new").code == 0
    before = buckets.read(bucket, "new/trials.jsonl")
    (ledger.root / "nightly").rename(ledger.root / "other")
    refuse.append(r"trials\.jsonl$")
    assert aec_bench(*EXPORT, f"gs://{bucket}/new").code != 0
    refuse.clear()
    assert buckets.read(bucket, "new/trials.jsonl") == before
    assert len(buckets.names(bucket)) == 2


def test_a_bucket_that_removes_its_objects_is_said(
    aec_bench: Run, ledger: Ledger, buckets: Buckets
) -> None:
    rule = {"action": {"type": "Delete"}, "condition": {"age": 14}}
    name = f"bucket-{uuid.uuid4()}"
    buckets.create(name, lifecycle={"rule": [rule]})
    ended = aec_bench(*EXPORT, f"gs://{name}")
    assert ended.code == 0
    (line,) = ended.err.splitlines()
    assert line.endswith("removes objects after 14 days; use another bucket to keep them")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["gs://no-such-bucket"], "--to: bucket 'no-such-bucket' does not exist; create it"),
        (["s3://bucket/x"], "--to: 's3://bucket/x' is not valid; use gs://BUCKET/PREFIX"),
        (["gs://bucket/a/../b"], "--to: 'gs://bucket/a/../b' is not valid because of '..' in it"),
        (["gs://bucket/*"], "--to: 'gs://bucket/*' is not valid because of '*' in it"),
        (["gs://bucket//x"], "--to: 'gs://bucket//x' is not valid because of '' in it"),
        (["gs://bucket", "--format", "csv"], "--format: 'csv' is not valid; use one of 'jsonl'"),
        (["gs://bucket", "-o", "x"], "--output: has no meaning with --to; leave it out"),
        (["gs://bucket", "--details"], "--details: has no meaning with --to; leave it out"),
    ],
)
def test_a_mistake_is_one_line(
    aec_bench: Run, ledger: Ledger, buckets: Buckets, arguments: list[str], line: str
) -> None:
    ended = aec_bench(*EXPORT, *arguments)
    assert (ended.code, ended.out) == (2, "")
    (said,) = ended.err.splitlines()
    assert said.startswith(f"aec-bench: {line}")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(text=st.text() | st.text(alphabet="abc/._-*?#[]\n ").map("gs://bucket/{}".format))
def test_any_address_is_a_safe_name_or_refused(text: str) -> None:
    try:
        target = Target.parse(text)
    except SettingsError:
        return
    name = f"{target.prefix}trials.jsonl"
    assert len(name.encode()) <= 1024
    assert not re.search(r"[*?#\[\]\x00-\x1f]|//|(^|/)\.", name)
