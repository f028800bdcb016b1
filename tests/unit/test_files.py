"""How files on this machine are named to people."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.host.files import shown_path


def test_a_path_is_shown_so_that_a_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "home/project"
    (project / "tasks").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(project)
    assert shown_path(project / "artefacts/ledger") == "artefacts/ledger"
    assert shown_path(tmp_path / "home/other") == "~/other"
    assert shown_path(tmp_path / "elsewhere") == f"{tmp_path}/elsewhere"
    monkeypatch.chdir("tasks")
    assert shown_path(project / "artefacts/ledger") == "~/project/artefacts/ledger"
