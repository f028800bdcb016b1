"""``--aec-mount`` and ``environment.gpus``: what sandboxes get of this machine, or why not."""

from __future__ import annotations

import pytest

from tests.project import Project

READ = """
cat /mnt/data/given > /workspace/seen
echo changed > /mnt/data/made || true
"""


@pytest.fixture
def mounted(project: Project) -> Project:
    (project.path / "data").mkdir()
    (project.path / "data/given").write_text("from the host\n")
    return project


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize(("mode", "made"), [("", False), (":ro", False), (":rw", True)])
def test_a_mounted_directory_is_seen_and_named_on_the_record(
    mounted: Project, mode: str, made: bool
) -> None:
    mounted.task(solve=READ)
    mounted.run(f"--aec-mount=data:/mnt/data{mode}")
    (record,) = mounted.records()
    assert record["environment"]["mounts"] == [
        f"{(mounted.path / 'data').resolve()}:/mnt/data:{'rw' if made else 'ro'}"
    ]
    (seen,) = mounted.path.glob("jobs/*/*/workspace/seen")
    assert seen.read_text() == "from the host\n"
    assert (mounted.path / "data/made").exists() is made


@pytest.mark.needs("namespaces")
def test_a_trial_with_mounts_is_another_trial_than_one_without(mounted: Project) -> None:
    mounted.task()
    mounted.run("--aec-mount=data:/mnt/data")
    mounted.run()
    keys = {record["trial_key"] for record in mounted.records()}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("data", "'data' is not valid; write HOST:SANDBOX[:ro|:rw]"),
        ("data:/mnt/x:no", "'data:/mnt/x:no' is not valid; write HOST:SANDBOX[:ro|:rw]"),
        ("nowhere:/mnt/x", "'nowhere' does not exist; name a file or a directory"),
        ("data:x", "'x' is not valid; name a path such as /mnt/data"),
        ("data:/", "'/' is not valid; name a path such as /mnt/data"),
        ("data:/tests/x", "'/tests/x' is the trial's own; mount it elsewhere"),
        ("data:/workspace", "'/workspace' is the trial's own; mount it elsewhere"),
    ],
)
def test_a_mount_that_cannot_be_is_refused_with_one_line(
    mounted: Project, given: str, message: str
) -> None:
    mounted.task()
    result = mounted.run(f"--aec-mount={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --aec-mount: {message}".replace("[", "[[]")])


def test_a_backend_without_mounts_refuses_them(mounted: Project) -> None:
    mounted.task()
    mounted.pytester.makeconftest(
        """
        from pytest_aecbench.backends.local import LocalBackend

        class Elsewhere(LocalBackend):
            takes_mounts = False

        def pytest_aecbench_make_backend(config, name):
            return Elsewhere() if name == "elsewhere" else None
        """
    )
    result = mounted.run("--aec-mount=data:/mnt/x", "--aec-backend=elsewhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    expected = "ERROR: --aec-mount: elsewhere has no mounts; use docker or local"
    result.stderr.fnmatch_lines([expected])


def test_gpus_are_refused_where_there_are_none(project: Project) -> None:
    project.task("civil/none", toml="[environment]\ngpus = 0\n")
    project.task("civil/some", toml="[environment]\ngpus = 2\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "civil/some/task.toml: environment.gpus: the task needs 2, and local has none; " in (
        result.stderr.str()
    )
    assert project.records() == []
    assert project.run("-k", "none").ret == pytest.ExitCode.OK
