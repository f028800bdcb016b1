"""``aec-bench ledger export --to``: attempts in Cloud Storage, where BigQuery loads them from."""

from __future__ import annotations

import json
import re
import tempfile
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import typer

from pytest_aecbench.cli.console import check_choices, print_problem, project_settings
from pytest_aecbench.errors import AecBenchError, SettingsError
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from pytest_aecbench.backends.gcp.cloud import Bucket
    from pytest_aecbench.cli.filters import Filters

__all__ = ["Target", "upload"]

_FORMATS = ("jsonl", "parquet")
_NAME = "trials"
_URL = re.compile(r"gs://(?P<bucket>[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(?P<prefix>.*))?", re.S)
# Other characters mean something in a shell, in an address or to programs that take patterns.
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+@ -]*")
_LONGEST_PREFIX = 900  # in bytes, of 1,024 for a name


class Target(NamedTuple):
    """A place in Cloud Storage; ``prefix`` is empty or ends with a slash."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """Return the place of an address such as ``gs://bucket/prefix``.

        Raises:
            SettingsError: it is not a safe name of objects.

        """
        found = _URL.fullmatch(text)
        if found is None:
            raise SettingsError(f"--to: {text!r} is not valid; use gs://BUCKET/PREFIX")
        prefix = (found["prefix"] or "").removesuffix("/")
        parts = prefix.split("/") if prefix else []
        bad = next((part for part in parts if not _PART.fullmatch(part)), None)
        if bad is not None or len(prefix) > _LONGEST_PREFIX:
            what = f"{bad!r} in it" if bad is not None else "its length"
            raise SettingsError(
                f"--to: {text!r} is not valid because of {what}; use letters, digits and "
                "'._=+@-' between slashes"
            )
        return cls(found["bucket"], "".join(f"{part}/" for part in parts))


def upload(filters: Filters, to: str, file_format: str) -> None:
    """Write the selected attempts and their schema; the data last, whole or not at all."""
    from pytest_aecbench.reports.bigquery import schema, write_json_lines, write_parquet

    check_choices([file_format], _FORMATS, "--format")
    target = Target.parse(to)
    bucket = _find_bucket(target.bucket)
    found = filters.found()
    name = f"{target.prefix}{_NAME}.{file_format}"
    described = f"{name}.schema.json"
    with tempfile.TemporaryFile() as file:
        if file_format == "jsonl":
            write_json_lines(file, found.entries, found)
        else:
            write_parquet(file, found.sheet)
        size = file.tell()
        text = json.dumps(schema(file_format), indent=2)
        is_new = described not in bucket.names(described)
        try:
            bucket.write(described, BytesIO(f"{text}\n".encode()))
            bucket.write(name, file)
        except AecBenchError:
            if is_new:
                bucket.remove([described])
            raise
    for one in (described, name):
        typer.echo(f"gs://{bucket.name}/{one}")
    typer.echo(f"{counted(len(found), 'attempt')}, {size} bytes")


def _find_bucket(name: str) -> Bucket:
    try:
        from pytest_aecbench.backends.gcp.cloud import Cloud
        from pytest_aecbench.backends.gcp.options import read
    except ModuleNotFoundError:
        raise SettingsError(
            "--to: Google's client is not installed; pip install 'pytest-aecbench[gcp]'"
        ) from None
    options = {**read(project_settings().options_of("gcp")), "bucket": name}
    bucket = Cloud(options).find_bucket()
    if bucket is None:
        raise SettingsError(f"--to: bucket {name!r} does not exist; create it, or name another")
    if (days := bucket.kept_days) is not None:
        print_problem(
            f"--to: gs://{name} removes objects after {counted(days, 'day')}; "
            "use another bucket to keep them"
        )
    return bucket
