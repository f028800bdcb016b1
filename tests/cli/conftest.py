"""Run the aec-bench command in this process, as its users would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

import pytest_aecbench.cli.app  # noqa: F401  (pytester forgets what is imported only in a test)
from pytest_aecbench.cli import main

if TYPE_CHECKING:
    from tests.standins.batch import BatchServer


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class Run(Protocol):
    def __call__(self, *arguments: str) -> Ended: ...


@pytest.fixture
def aec_bench(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``aec-bench`` with these arguments."""

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture(scope="module")
def google_server() -> Iterator[BatchServer]:
    from tests.standins.batch import BatchServer
    from tests.standins.buckets import Buckets
    from tests.standins.executor import Executor

    buckets, executor = Buckets(), Executor(None)  # no task is run
    server = BatchServer(executor, buckets)
    yield server
    server.close()
    buckets.close()
    executor.close()


@pytest.fixture
def google(google_server: BatchServer) -> Iterator[BatchServer]:
    """Cloud Batch and Cloud Storage."""
    google_server.needs_token = True
    yield google_server
    google_server.faults.clear()
    google_server.calls.clear()


@pytest.fixture
def google_home(tmp_path: Path, google: BatchServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home with credentials, and a project whose jobs go to the stand-in."""
    for name in ("GCP_REGION", "GCP_MACHINE_TYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))  # without gcloud
    for name, value in google.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    project = tmp_path / "project"
    project.mkdir()
    (project / "aec-bench.toml").write_text(f'[compute.gcp]\nendpoint = "{google.url}"\n')
    monkeypatch.chdir(project)
    return tmp_path
