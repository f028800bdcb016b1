"""``aec-bench config gcp``: Google's clients try what is going to be stored."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Run
from tests.standins.batch import BatchServer, GoogleFault
from tests.stopping import wait_until

ASK_NOTHING = ("config", "gcp", "--non-interactive")
ANSWERS = "\n\n\n\n"


def stored(google_home: Path) -> Any:
    path = google_home / "xdg/aec-bench/config.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_values_are_tried_and_stored_where_the_backend_reads_them(
    aec_bench: Run, google_home: Path, google: BatchServer
) -> None:
    from pytest_aecbench.backends.gcp.options import OPTIONS, read
    from pytest_aecbench.settings.layers import settings_at

    aec_bench("config", "set", "ledger_root", "kept")
    options = ("--region", "europe-west4", "--zone", "europe-west4-b", "--bucket", "bucket-1")
    ended = aec_bench(*ASK_NOTHING, *options)
    assert ended.code == 0, ended
    assert "Cloud Batch    answers for projects/project-1/locations/europe-west4" in ended.out
    assert "Cloud Storage  gs://bucket-1 can be written and read" in ended.out
    assert "gcloud         not installed; it is needed to log in" in ended.out
    assert stored(google_home) == {
        "ledger_root": "kept",
        "compute.gcp.project": "project-1",
        "compute.gcp.region": "europe-west4",
        "compute.gcp.zone": "europe-west4-b",
        "compute.gcp.bucket": "bucket-1",
    }
    assert google.called(google.LIST)
    assert google.machines.buckets.names("bucket-1") == []  # nothing of the trial is left
    keys = {key.removeprefix("compute.gcp.") for key in stored(google_home) if "gcp" in key}
    assert keys <= set(OPTIONS)
    given = settings_at(Path.cwd()).options_of("gcp")
    assert {key: read(given)[key] for key in keys} == {
        "project": "project-1",
        "region": "europe-west4",
        "zone": "europe-west4-b",
        "bucket": "bucket-1",
    }


def test_it_asks_for_what_is_not_given_and_again_after_a_wrong_answer(
    aec_bench: Run, google_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = "PROJECT\nproject-2\nnowhere\nus-east1\nus-central1-a\n\n\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    ended = aec_bench("config", "gcp", "--json")
    assert ended.code == 0, ended
    assert ended.json() == stored(google_home) == {
        "compute.gcp.project": "project-2",
        "compute.gcp.region": "us-east1",
        "compute.gcp.bucket": "project-2-aecbench",
    }  # fmt: skip
    assert "Error: 'PROJECT' is not valid; use a project's id" in ended.err
    assert "Error: 'nowhere' is not valid; use a region" in ended.err
    assert "Error: 'us-central1-a' is not valid; use a zone of the region" in ended.err


def test_what_is_stored_is_the_next_default_and_a_zone_can_be_taken_back(
    aec_bench: Run, google_home: Path
) -> None:
    aec_bench(*ASK_NOTHING, "--skip-tests", "--region", "us-east1", "--zone", "us-east1-b")
    assert aec_bench(*ASK_NOTHING, "--skip-tests", "--bucket", "other").code == 0
    assert stored(google_home)["compute.gcp.zone"] == "us-east1-b"
    assert aec_bench(*ASK_NOTHING, "--skip-tests", "--zone", "").code == 0
    assert stored(google_home) == {
        "compute.gcp.project": "project-1",
        "compute.gcp.region": "us-east1",
        "compute.gcp.bucket": "other",
    }


def test_without_tests_no_service_is_asked(
    aec_bench: Run, google_home: Path, google: BatchServer
) -> None:
    assert aec_bench(*ASK_NOTHING, "--skip-tests", "--project", "project-9").code == 0
    assert google.calls == []
    assert stored(google_home)["compute.gcp.bucket"] == "project-9-aecbench"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--project", "P"), "--project: 'P' is not valid; use a project's id"),
        (("--region", "mars"), "--region: 'mars' is not valid; use a region"),
        (("--zone", "us-east1-b"), "--zone: 'us-east1-b' is not valid; use a zone of the region"),
        (("--bucket", "gs://x"), "--bucket: 'gs://x' is not valid; use 3 to 63"),
    ],
)
def test_a_wrong_option_is_one_line_and_stores_nothing(
    aec_bench: Run, google_home: Path, arguments: tuple[str, ...], line: str
) -> None:
    ended = aec_bench(*ASK_NOTHING, *arguments)
    assert ended.code == 2
    assert ended.err.startswith(f"aec-bench: {line}")
    assert ended.err.count("\n") == 1
    assert stored(google_home) is None


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"status": 403, "reason": "SERVICE_DISABLED"}, "not enabled"),
        ({"status": 403, "message": "no"}, "batch.jobsEditor"),
        ({"status": 401, "message": "bad"}, "credentials are refused"),
    ],
)
def test_a_service_that_refuses_is_one_line_and_stores_nothing(
    aec_bench: Run, google_home: Path, google: BatchServer, fault: dict[str, Any], words: str
) -> None:
    google.faults.append(GoogleFault(google.LIST, times=9, **fault))
    ended = aec_bench(*ASK_NOTHING)
    assert ended.code == 2
    assert "Cloud Batch cannot be used, so nothing is stored; " in ended.err
    assert words in ended.err
    assert ended.err.count("\n") == 1
    assert stored(google_home) is None


def test_a_bucket_that_cannot_be_written_is_one_line_and_stores_nothing(
    aec_bench: Run, google_home: Path, google: BatchServer
) -> None:
    refused = google.machines.buckets.refuse_writes("aecbench-check/")
    ended = aec_bench(*ASK_NOTHING)
    refused.clear()
    assert ended.code == 2
    assert "Cloud Storage cannot be used, so nothing is stored; an upload: " in ended.err
    assert ended.err.count("\n") == 1
    assert stored(google_home) is None


def test_a_region_that_does_not_exist_is_found_out(aec_bench: Run, google_home: Path) -> None:
    ended = aec_bench(*ASK_NOTHING, "--region", "moon-north7")
    assert ended.code == 2
    assert "Location moon-north7 is not found" in ended.err
    assert stored(google_home) is None


def test_without_credentials_it_says_how_to_log_in(
    aec_bench: Run, google_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    ended = aec_bench(*ASK_NOTHING)
    assert ended.code == 2
    assert "run 'gcloud auth application-default login'" in ended.err
    assert ended.err.count("\n") == 1
    assert stored(google_home) is None


def test_it_can_log_in(
    aec_bench: Run, google_home: Path, google: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    place = google_home / "gcloud/application_default_credentials.json"
    place.parent.mkdir()
    program = google_home / "bin/gcloud"
    log_in = f"/bin/cp {google_home}/credentials.json {place}"
    program.write_text(f"#!/bin/sh\n[ $1 = auth ] && {log_in} || echo project-3\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"y\n{ANSWERS}"))
    ended = aec_bench("config", "gcp")
    assert ended.code == 0, ended
    assert stored(google_home)["compute.gcp.project"] == "project-3"


def test_without_a_project_it_says_how_to_name_one(
    aec_bench: Run, google_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    ended = aec_bench(*ASK_NOTHING, "--skip-tests")
    assert ended.code == 2
    assert ended.err == (
        "aec-bench: --project: is not given; name it, or set GOOGLE_CLOUD_PROJECT\n"
    )


def test_an_end_of_input_stores_nothing(
    aec_bench: Run, google_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("project-1\n"))
    ended = aec_bench("config", "gcp")
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert stored(google_home) is None


@pytest.mark.parametrize("where", ["at a question", "in a test"])
def test_ctrl_c_stores_nothing(google_home: Path, google: BatchServer, where: str) -> None:
    argv = [sys.executable, "-m", "pytest_aecbench", "config", "gcp"]
    if where == "in a test":
        google.faults.append(GoogleFault(google.LIST, hang=True))
        argv.append("--non-interactive")
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    if where == "in a test":
        wait_until(lambda: google.called(google.LIST))
    else:
        seen = ""
        while "Project id" not in seen:
            seen += process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "Traceback" not in output
    assert stored(google_home) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.text(), min_size=4, max_size=4))
def test_any_value_is_stored_or_refused_in_a_line(
    aec_bench: Run, google_home: Path, values: list[str]
) -> None:
    names = ("--project", "--region", "--zone", "--bucket")
    options = [f"{name}={value}" for name, value in zip(names, values, strict=True)]
    ended = aec_bench(*ASK_NOTHING, "--skip-tests", *options)
    assert ended.code in (0, 2)
    assert "Traceback" not in ended.err


def test_without_the_libraries_it_says_what_to_install(
    aec_bench: Run, google_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_aecbench.cli.gcp.find_spec", lambda name: None)
    ended = aec_bench(*ASK_NOTHING)
    assert ended.code == 2
    assert ended.err.endswith("not installed; pip install 'pytest-aecbench[gcp]'\n")
