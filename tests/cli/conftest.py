"""Run the aec-bench command in this process, as its users would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

import pytest_aecbench.cli.app  # noqa: F401  (pytester forgets what is imported only in a test)
from pytest_aecbench.cli import main


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
