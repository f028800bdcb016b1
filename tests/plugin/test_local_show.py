"""``--aec-local-show``: a trial on this machine sees nothing of its project but what is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_aecbench.host.homes import remove_tree
from tests.project import Project

pytestmark = pytest.mark.needs("namespaces")

LOOK = "--aec-agent=a=command:find {0} -type f > seen.txt; cat {0}/data/table.csv >> seen.txt"


def seen(path: Path) -> str:
    (found,) = path.glob("jobs/*/*/workspace/seen.txt")
    return found.read_text()


def test_a_trial_sees_the_named_paths_and_nothing_else(anyhow: Project) -> None:
    anyhow.task()
    (anyhow.path / "data").mkdir()
    (anyhow.path / "data/table.csv").write_text("a,b\n")
    (anyhow.path / ".env").write_text("NAME=value\n")
    anyhow.run(LOOK.format(anyhow.path), "--aec-local-show=data").assert_outcomes(failed=1)
    assert seen(anyhow.path) == f"{anyhow.path}/data/table.csv\na,b\n"


def test_several_paths_may_be_named_in_the_ini_file(project: Project) -> None:
    project.task()
    (project.path / "one").write_text("")
    (project.path / "two").write_text("")
    project.pytester.makeini("[pytest]\naec_local_show =\n  one\n  two\n")
    project.run(LOOK.format(project.path)).assert_outcomes(failed=1)
    assert sorted(seen(project.path).split()) == [f"{project.path}/one", f"{project.path}/two"]


@pytest.mark.parametrize("path", ["none", "", "data/none"])
def test_a_path_that_does_not_exist_is_one_line(anyhow: Project, path: str) -> None:
    anyhow.task()
    result = anyhow.run(f"--aec-local-show={path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: --aec-local-show: '{path}' does not exist; name a file or a directory"]
    )


@pytest.fixture
def elsewhere(project: Project) -> Iterator[Path]:
    """A project outside of the temporary directories, which are hidden in any case."""
    if not os.access("/opt", os.W_OK):
        pytest.skip("this user cannot write to /opt")
    project.task()
    path = Path(tempfile.mkdtemp(prefix="aec-project-", dir="/opt"))
    (project.path / "tasks").rename(path / "tasks")
    (path / ".env").write_text("NAME=value\n")
    (path / "data").mkdir()
    (path / "data/table.csv").write_text("a,b\n")
    yield path
    remove_tree(path)


def test_a_run_hides_its_whole_project(elsewhere: Path) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "tasks", "-p", "no:cacheprovider"]
    argv += [LOOK.format(elsewhere), "--aec-local-mode=namespaces"]
    subprocess.run(argv, cwd=elsewhere, check=False, stdout=subprocess.DEVNULL)
    assert seen(elsewhere) == ""


def test_a_program_that_is_hidden_is_refused_in_one_line(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.task()
    (tmp_path / "bin").mkdir()
    (tmp_path / "store").mkdir()
    program = tmp_path / "store/solver"
    program.write_text("#!/bin/bash\necho solved > output.jsonl\n")
    program.chmod(0o755)
    (tmp_path / "bin/solver").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    parameters = {"install": "echo x", "run": "solver"}
    agent = {"name": "a", "harness": "command", "model": "m", "parameters": parameters}
    (project.path / "x.yaml").write_text(json.dumps({"agents": [agent]}))
    result = project.run("--aec-experiment=x.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*: local: {program} is hidden from trials; add --aec-local-show={program.parent}"]
    )
    shown = project.run("--aec-experiment=x.yaml", f"--aec-local-show={program.parent}")
    shown.assert_outcomes(failed=1)
    (output,) = project.path.glob("jobs/*/*/workspace/output.jsonl")
    assert output.read_text() == "solved\n"
