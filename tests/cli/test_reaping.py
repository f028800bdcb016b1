"""aec-bench reap removes what dead runs left, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.host import runs
from pytest_aecbench.host.homes import make_home, remove_tree
from pytest_aecbench.host.owner import Owner
from tests.cli.conftest import Run
from tests.project import Project
from tests.stopping import processes, wait_until


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{7200 + os.getpid()}.{abs(hash(request.node.nodeid)) % 10**6}"


@pytest.fixture
def project(pytester: pytest.Pytester, own_machine: Path) -> Project:
    return Project(pytester, ())


@pytest.fixture
def running(project: Project, seconds: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run with a trial under way, whose processes hang on to nothing but their sandbox."""
    project.task(solve=f"touch started; sleep {seconds}")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "tasks", "--aec-local-mode=rewriting"],
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(lambda: list(project.path.glob("jobs/*/*/workspace/started")))
    wait_until(lambda: list(processes("cmdline", f"{seconds}\0")))
    yield process
    process.kill()
    process.wait()


def homes(machine: Path) -> list[str]:
    return sorted(path.name for path in (machine / "homes").iterdir())


def kill_with_its_watcher(process: subprocess.Popen[Any], home: Path) -> None:
    """Kill a run and what would clean up after it, as a machine that runs out of memory might."""
    for pid in processes("cmdline", f"{home}\0"):
        os.kill(int(pid), signal.SIGKILL)
    process.kill()
    process.wait()


def test_a_live_run_is_left_alone(
    aec_bench: Run,
    running: subprocess.Popen[bytes],
    project: Project,
    own_machine: Path,
    seconds: str,
) -> None:
    before = homes(own_machine)
    assert len(before) == 1
    ended = aec_bench("reap", "--backend=local", "--json")
    assert ended.code == 0
    found = ended.json()
    assert (found["removed"], found["recorded"]) == ({"local": []}, [])
    assert running.poll() is None
    assert homes(own_machine) == before
    assert list(processes("cmdline", f"{seconds}\0"))
    assert project.records() == []


def test_what_a_dead_run_left_is_removed_from_anywhere(
    aec_bench: Run,
    running: subprocess.Popen[bytes],
    project: Project,
    own_machine: Path,
    seconds: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (home,) = homes(own_machine)
    kill_with_its_watcher(running, own_machine / "homes" / home)
    assert list(processes("cmdline", f"{seconds}\0")), "they outlive the run"
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    dry = aec_bench("reap", "--backend=local", "--dry-run", "--json").json()
    assert (dry["dry_run"], dry["removed"]) == (True, {"local": [home]})
    assert [trial["task_id"] for trial in dry["recorded"]] == ["electrical/ohms-law"]
    assert homes(own_machine) == [home]
    assert project.records() == []
    ended = aec_bench("reap", "--backend=local")
    assert ended.code == 0
    assert f"local: removed {home}\n" in ended.out
    assert "recorded electrical/ohms-law (oracle) in " in ended.out
    assert homes(own_machine) == []
    wait_until(lambda: not list(processes("cmdline", f"{seconds}\0")))
    assert project.record()["evaluation"]["validity"] == "crashed"
    assert list((own_machine / "runs").iterdir()) == []
    again = aec_bench("reap", "--backend=local")
    assert again.out == "local: nothing was left\n"


def test_the_next_run_removes_it_too(
    running: subprocess.Popen[bytes], project: Project, own_machine: Path, seconds: str
) -> None:
    (home,) = homes(own_machine)
    kill_with_its_watcher(running, own_machine / "homes" / home)
    project.task()
    project.run().assert_outcomes(passed=1)
    assert homes(own_machine) == []
    wait_until(lambda: not list(processes("cmdline", f"{seconds}\0")))


SECRETS = {"IN_DOTENV_TOKEN": "d0tenv-5ecret-value", "IN_SHELL_TOKEN": "sh3ll-5ecret-value"}


@pytest.mark.parametrize("is_set", [True, False], ids=["set", "not set"])
def test_the_files_of_a_trial_that_is_recorded_lose_their_secrets(
    aec_bench: Run,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    is_set: bool,
) -> None:
    dotenv, shell = SECRETS
    (project.path / ".env").write_text(f"{dotenv}={SECRETS[dotenv]}\n")
    monkeypatch.setenv(shell, SECRETS[shell])
    project.task(
        toml=f'[solution.env]\nA = "${{{dotenv}}}"\nB = "${{{shell}}}"\n',
        solve='echo "$A" > a; echo "$B" > b; touch started; sleep 4321',
    )
    argv = [sys.executable, "-m", "pytest", "-q", "tasks", "--aec-local-mode=rewriting"]
    process = subprocess.Popen(argv, cwd=project.path, stdout=subprocess.DEVNULL)
    wait_until(lambda: list(project.path.glob("jobs/*/*/workspace/started")))
    process.kill()
    process.wait()
    # Another project has another value under the same name.
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    Path("aec-bench.toml").write_text("")
    Path(".env").write_text(f"{dotenv}=an0ther-5ecret-value\n")
    if not is_set:
        monkeypatch.delenv(shell)
    ended = aec_bench("reap", "--backend=local")
    assert "recorded electrical/ohms-law (oracle) in " in ended.out
    (a,), (b,) = (list(project.path.glob(f"jobs/*/*/workspace/{name}")) for name in "ab")
    assert a.read_text() == f"<{dotenv}>\n"
    assert b.read_text() == (f"<{shell}>\n" if is_set else f"{SECRETS[shell]}\n")
    warned = f"warning: {project.path}/jobs: files of these trials may hold {shell}; "
    assert (warned in ended.out) is not is_set
    assert dotenv not in os.environ


def left_home(owner: Owner) -> Path:
    """Make a home that says it belongs to another process."""
    home = make_home("local")
    (home / "owner.json").write_text(json.dumps(owner.labels()))
    (home / "logs").mkdir()
    for number in range(200):
        (home / "logs" / str(number)).mkdir()
    (home / "logs").chmod(0o500)
    return home


@pytest.mark.usefixtures("own_machine")
def test_what_belongs_to_a_process_out_of_sight_is_left_alone(aec_bench: Run) -> None:
    dead = replace(Owner.current(), started="1")
    home = left_home(replace(dead, namespace="1"))
    left = aec_bench("reap", "--backend=local").out
    assert left == (
        "local: left 1 alone whose run may be alive in another container, "
        f"on another machine, or before this boot: {home.name}\n"
    )
    assert home.is_dir()
    remove_tree(home)
    home = left_home(dead)
    assert aec_bench("reap", "--backend=local").out == f"local: removed {home.name}\n"
    assert not home.exists()


def test_reaping_twice_at_once_is_safe(own_machine: Path) -> None:
    dead = replace(Owner.current(), started="1")
    for _ in range(10):
        left_home(dead)
    mine = make_home("local")
    errors: list[Exception] = []

    def reap() -> None:
        try:
            LocalBackend().reap()
        except Exception as error:  # noqa: BLE001  (to be shown by the test's own thread)
            errors.append(error)

    threads = [threading.Thread(target=reap) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert homes(own_machine) == [mine.name]


@pytest.mark.usefixtures("own_machine")
def test_a_home_without_an_owner_is_left_until_it_is_old(aec_bench: Run) -> None:
    home = make_home("local")
    (home / "owner.json").unlink()
    assert aec_bench("reap", "--backend=local").out == "local: nothing was left\n"
    os.utime(home, (0, 0))
    assert aec_bench("reap", "--backend=local").out == f"local: removed {home.name}\n"


def test_a_home_whose_maker_died_before_it_wrote_that_is_known_by_its_name(
    aec_bench: Run, own_machine: Path
) -> None:
    code = (
        "import os, pytest_aecbench.host.homes as homes; from pathlib import Path\n"
        "Path.write_text = lambda *args: os.kill(os.getpid(), 9)\n"
        "homes.make_home('local')"
    )
    died = subprocess.run([sys.executable, "-c", code], check=False)
    assert died.returncode == -signal.SIGKILL
    (left,) = homes(own_machine)
    assert aec_bench("reap", "--backend=local").out == f"local: removed {left}\n"
    assert homes(own_machine) == []


@pytest.mark.usefixtures("own_machine")
@pytest.mark.slow
def test_a_backend_out_of_reach_is_passed_over_unless_named() -> None:
    # In a process of its own, since Docker's client leaves a socket open when nobody answers.
    command = [sys.executable, "-c", "from pytest_aecbench.cli import main; main()", "reap"]
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/socket"}
    ended = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ended.returncode == 0
    assert not [name for name in ("daytona", "e2b", "modal") if name in ended.stdout]  # not set up
    half = {**env, "E2B_DOMAIN": "e2b.example"}
    used = subprocess.run(command, env=half, capture_output=True, text=True).stdout
    assert "e2b: skipped; E2B_API_KEY is not set; create a key" in used
    assert "docker: skipped; docker: no engine answers at unix:///nonexistent" in ended.stdout
    assert "local: nothing was left" in ended.stdout
    named = subprocess.run([*command, "--backend=docker"], env=env, capture_output=True, text=True)
    assert (named.returncode, named.stdout) == (1, "")
    assert named.stderr.startswith("aec-bench: docker: no engine answers")


def test_an_unknown_backend_is_one_line(aec_bench: Run) -> None:
    ended = aec_bench("reap", "--backend=dokcer")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "aec-bench: --backend: 'dokcer' is not known; did you mean 'docker'?\n"


def test_a_ledger_that_cannot_be_read_keeps_no_other_from_being_cleaned(
    aec_bench: Run, own_machine: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for name, root in {"bad": tmp_path / "file", "gone": tmp_path / "no-such-directory"}.items():
        runs.begin(runs.Lease(name, root))
        lease = own_machine / "runs" / f"{name}.json"
        labels = {**json.loads(lease.read_text()), "aecbench.started": "1"}
        lease.write_text(json.dumps(labels))
    ended = aec_bench("reap", "--backend=local")
    assert ended.code == 0
    assert f"{tmp_path / 'file'}: skipped; " in ended.out
    assert [path.name for path in (own_machine / "runs").iterdir()] == ["bad.json"]


OWN_BACKEND = """
class Own:
    @classmethod
    def from_settings(cls, settings):
        return cls()

    def reap(self, dry_run=False):
        return ["a bucket"]

    build_environment = launch_trial = execute_trial = collect_outputs = teardown = reap
"""


@pytest.mark.usefixtures("own_machine")
def test_a_backend_of_the_projects_own_is_reaped_by_its_dotted_path(
    aec_bench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_backend.py").write_text(OWN_BACKEND)
    ended = aec_bench("reap", "--backend=own_backend.Own")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "own_backend.Own: removed a bucket\n"
