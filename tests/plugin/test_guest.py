"""In a project without tasks the plugin is silent, cheap and out of the way."""

from __future__ import annotations

import sys

import pytest

HEAVY = (
    "pydantic",
    "sqlite3",
    "yaml",
    "docker",
    "modal",
    "e2b",
    "daytona",
    "google.cloud",
    "xdist.dsession",
)


def test_nothing_is_printed_in_a_project_without_tasks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    lines = [line for line in result.outlines if not line.startswith("plugins: ")]
    assert "aec" not in "\n".join(lines)
    assert result.stderr.str() == ""


def test_nothing_heavy_is_imported_in_a_project_without_tasks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import sys

        def test_it():
            assert "pytest_aecbench.plugin.options" in sys.modules
            found = [name for name in {HEAVY[:-1]!r} if name in sys.modules]
            ours = [name for name in sys.modules if name.startswith("pytest_aecbench.")]
            assert not found, found
            assert "pytest_aecbench.tasks.task" not in ours, ours
            assert "pytest_aecbench.backends.local" not in ours, ours
            assert len(ours) <= 28, ours  # each costs a third of a millisecond
        """
    )
    pytester.runpytest_subprocess("-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_nothing_is_imported_at_the_end_of_a_run_without_trials(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            ours = {name for name in sys.modules if name.startswith("pytest_aecbench.")}
            late = ("ledger.store", "ledger.record", "reports", "settings.model", "backends")
            found = [name for name in ours if name.startswith(
                tuple(f"pytest_aecbench.{one}" for one in late)
            )]
            standard = [name for name in ("fractions", "statistics") if name in sys.modules]
            print("found:", found + standard)
        """
    )
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-s")
    result.stdout.fnmatch_lines(["*found: []"])


def test_no_entry_points_are_looked_through_for_our_modules(pytester: pytest.Pytester) -> None:
    counting = """
        import importlib.metadata as metadata
        import runpy
        import sys

        real, calls = metadata.distributions, []

        def counted(*args, **kwargs):
            calls.append(args)
            return real(*args, **kwargs)

        metadata.distributions = counted
        try:
            runpy.run_module("pytest", run_name="__main__")
        except SystemExit:
            print("scans:", len(calls))
        """
    script = pytester.makepyfile(counting=counting)
    pytester.makepyfile(test_it="def test_it(): pass")
    scans = {}
    for plugin in ("aecbench", "nosuchplugin"):
        arguments = (script, "-p", f"no:{plugin}", "-p", "no:cacheprovider", "test_it.py")
        scans[plugin] = pytester.run(sys.executable, *arguments).outlines[-1]
    assert scans["nosuchplugin"].startswith("scans: ")
    assert scans["aecbench"] == scans["nosuchplugin"]


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "n2"])
def test_a_parameter_that_looks_like_a_trial_is_not_one(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("node_id", ["tasks/a/task.toml::trial[oracle-1]"])
        def test_it(node_id):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*mode)
    result.assert_outcomes(passed=1)
    assert "aec:" not in result.stdout.str()
    assert not (pytester.path / "artefacts").exists()


def test_nothing_is_written_in_a_project_without_tasks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    written = {}
    for plugin in ("aecbench", "nosuchplugin"):
        pytester.runpytest_subprocess("-p", f"no:{plugin}")
        written[plugin] = {path.name for path in pytester.path.iterdir()} - {"runpytest-1"}
    assert written["aecbench"] == written["nosuchplugin"]
