"""Where settings come from: options, experiment, project, ini, user, defaults."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.conftest import unconfigured
from tests.project import HALF, Project


@pytest.fixture(autouse=True)
def environment_left_as_it_was() -> Iterator[None]:
    yield
    assert not {"FROM_DOTENV", "MODEL"} & os.environ.keys()


def refused(result: pytest.RunResult) -> str:
    """Return the one line that a run was refused with."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    (line,) = [line for line in result.errlines if line.strip()]
    return line.removeprefix("ERROR: ")


def shown(project: Project, *arguments: str) -> dict[str, tuple[str, str]]:
    """Return what ``--aec-show-config`` says, by setting."""
    result = project.pytester.runpytest("--aec-show-config", *arguments)
    assert result.ret == 0
    start = result.outlines.index(next(x for x in result.outlines if x.startswith("setting ")))
    lines = result.outlines[start:]
    second, third = lines[0].index("value"), lines[0].index("from")
    return {
        line[:second].strip(): (line[second:third].strip(), line[third:].strip())
        for line in lines[1:]
        if not line.startswith("warning: ")
    }


def configure_user(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = directory / "xdg/aec-bench/config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory / "xdg"))


def test_a_higher_place_wins_and_each_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = "xdg/aec-bench/config.json: ledger_root"
    steps = [
        ("artefacts/ledger", "default"),
        ("of-user", user),
        ("of-ini", "tox.ini: aec_ledger_root"),
        ("of-project", "aec-bench.toml: paths.ledger"),
    ]
    assert shown(project)["ledger_root"] == steps[0]
    configure_user(project.path, monkeypatch, '{"ledger_root": "of-user"}')
    assert shown(project)["ledger_root"] == steps[1]
    project.pytester.makeini("[pytest]\naec_ledger_root = of-ini\naec_repetitions = 2\n")
    assert shown(project)["ledger_root"] == steps[2]
    (project.path / "aec-bench.toml").write_text('[paths]\nledger = "of-project"\n')
    settings = shown(project)
    assert settings["ledger_root"] == steps[3]
    assert settings["repetitions"] == ("2", "tox.ini: aec_repetitions")
    (project.path / "x.yaml").write_text("repetitions: 3\ndisable_verification: true\n")
    settings = shown(project, "--aec-experiment=x.yaml")
    assert settings["repetitions"] == ("3", "x.yaml: repetitions")
    assert settings["verify"] == ("false", "x.yaml: disable_verification")
    settings = shown(project, "--aec-experiment=x.yaml", "--aec-repetitions=4")
    assert settings["repetitions"] == ("4", "--aec-repetitions")


def test_showing_the_configuration_runs_nothing(anyhow: Project) -> None:
    anyhow.task()
    result = anyhow.run("--aec-show-config")
    assert result.ret == 0
    assert "tasks_root" in result.stdout.str()
    assert not (anyhow.path / "artefacts").exists()


def test_paths_are_below_the_nearest_project_file(anyhow: Project) -> None:
    anyhow.task("inner/electrical/ohms-law")
    inner = anyhow.path / "tasks/inner"
    (inner / "pytest.ini").write_text("[pytest]\n")
    (anyhow.path / "aec-bench.toml").write_text(
        '[project]\nname = "my-bench"\n'
        '[paths]\ntasks = "tasks/inner"\nledger = "out/ledger"\njobs = "out/jobs"\n'
    )
    result = anyhow.run("tasks/inner")
    result.assert_outcomes(passed=1)
    assert ", my-bench" in result.stdout.str()
    (record,) = [json.loads(p.read_text()) for p in anyhow.path.glob("out/ledger/*/*.json")]
    assert record["task"]["task_id"] == "electrical/ohms-law"
    assert record["outputs"]["jobs_dir"].startswith("out/jobs/")
    assert (anyhow.path / record["outputs"]["jobs_dir"] / "workspace").is_dir()


def test_a_conflict_of_ini_and_project_is_said_in_one_line(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeini("[pytest]\naec_backend = docker\naec_jobs_root = jobs\n")
    (anyhow.path / "aec-bench.toml").write_text(
        '[compute]\nbackend = "local"\n[paths]\njobs = "jobs"\n'
    )
    result = anyhow.run("-q", "-W", "error")
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if "warning" in line]
    assert line == (
        "aec: warning: tox.ini: aec_backend is 'docker' but "
        "aec-bench.toml: compute.backend is 'local'; the latter counts"
    )


@unconfigured
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[path]\n", "aec-bench.toml: path: unknown key; did you mean 'paths'?"),
        ('[compute]\nbackend = "lcal"\n', "aec-bench.toml: compute.backend: 'lcal' is not known;"),
        (
            "[compute.docker]\nhost = 1\n",
            "aec-bench.toml: compute.docker: the docker backend has no options; leave it out",
        ),
        ("\0", "aec-bench.toml: line 1: "),
    ],
)
def test_a_bad_project_file_refuses_trials_and_nothing_else(
    anyhow: Project, text: str, line: str
) -> None:
    anyhow.task()
    (anyhow.path / "test_it.py").write_text("def test_it(): pass\n")
    (anyhow.path / "aec-bench.toml").write_text(text)
    assert refused(anyhow.run()).startswith(line)
    assert anyhow.records() == []
    anyhow.pytester.runpytest(*anyhow.mode, "test_it.py").assert_outcomes(passed=1)


def test_a_directory_in_place_of_the_project_file_is_one_line(project: Project) -> None:
    project.task()
    (project.path / "aec-bench.toml").mkdir()
    assert refused(project.run()) == ("aec-bench.toml: not a regular file; put a text file there")


@unconfigured
def test_a_bad_users_file_refuses_trials_and_nothing_else(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    anyhow.task()
    configure_user(anyhow.path, monkeypatch, '{"ledgr_root": "x"}')
    line = refused(anyhow.run())
    assert line.endswith("'ledgr_root' is an unknown key; did you mean 'ledger_root'?")
    (anyhow.path / "test_it.py").write_text("def test_it(): pass\n")
    anyhow.pytester.runpytest(*anyhow.mode, "test_it.py").assert_outcomes(passed=1)


def test_every_problem_is_a_line_of_its_own(project: Project) -> None:
    project.task()
    (project.path / "x.yaml").write_text("repetitons: 1\ntasks: {domain: [a]}\n")
    result = project.run("--aec-experiment=x.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: x.yaml: tasks.domain: unknown key; did you mean 'domains'?",
        "ERROR: x.yaml: repetitons: unknown key; did you mean 'repetitions'?",
    ]


def test_nothing_is_imported_for_files_that_no_trial_needs(project: Project) -> None:
    (project.path / "aec-bench.toml").write_text('[compute]\nbackend = "local"\n')
    (project.path / ".env").write_text("FROM_DOTENV=1\n")
    project.pytester.makepyfile(
        """
        import os, sys

        def test_it():
            found = {"pydantic", "yaml", "dotenv", "tomllib", "pytest_aecbench.settings.layers"}
            assert not found & sys.modules.keys()
            assert "FROM_DOTENV" not in os.environ
        """
    )
    result = project.pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:tomllib")
    result.assert_outcomes(passed=1)


SECRET = "hunter2-hunter2"


def test_dotenv_fills_in_what_the_shell_left_out_and_is_never_shown(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_SHELL", "the-shell's-own")
    (anyhow.path / "aec-bench.toml").touch()
    (anyhow.path / ".env").write_text(f"FROM_SHELL=not-this-one\nFROM_DOTENV={SECRET}\n")
    anyhow.task(
        toml='[environment]\nenv = {A = "$FROM_SHELL", B = "$FROM_DOTENV"}\n',
        solve='echo "{\\"current_a\\": 2, \\"power_w\\": 24, \\"a\\": \\"$A $B\\"}" >'
        " /workspace/output.jsonl; echo $B",
    )
    result = anyhow.run("-rA", "-v")
    result.assert_outcomes(passed=1)
    excerpt = anyhow.record()["outputs"]["output_excerpt"]
    assert "not-this-one" not in excerpt
    assert "<FROM_DOTENV>" in excerpt
    kept = [path.read_bytes() for path in anyhow.path.rglob("*") if path.is_file()]
    assert [data for data in kept if SECRET.encode() in data] == [
        (anyhow.path / ".env").read_bytes()
    ]
    assert SECRET not in result.stdout.str()
    show = anyhow.pytester.runpytest("--aec-show-config", f"--aec-summary-md={SECRET}")
    assert "<FROM_DOTENV>" in show.stdout.str()
    assert SECRET not in show.stdout.str()


@unconfigured
def test_dotenv_of_a_project_that_is_not_ours_is_left_alone(anyhow: Project) -> None:
    (anyhow.path / ".env").write_text("FROM_DOTENV=1\n")
    (anyhow.path / "test_it.py").write_text(
        "import os\n\ndef test_it():\n    assert 'FROM_DOTENV' not in os.environ\n"
    )
    anyhow.pytester.runpytest(*anyhow.mode, "test_it.py").assert_outcomes(passed=1)


def test_files_edited_in_mid_run_change_nothing(pytester: pytest.Pytester) -> None:
    project = Project(pytester, ("-n2",))
    project.task()
    # Workers start after the controller has read its files: by then these say something else.
    (project.path / "conftest.py").write_text(
        "import pathlib\n\n"
        "def pytest_configure_node(node):\n"
        "    pathlib.Path('x.yaml').write_text('repetitions: 9')\n"
        "    pathlib.Path('prompt.md').write_text('changed')\n"
        "    pathlib.Path('aec-bench.toml').write_text('broken')\n"
        "    pathlib.Path('.env').write_text('MODEL=changed')\n"
    )
    (project.path / "aec-bench.toml").write_text('[paths]\nledger = "artefacts/ledger"\n')
    (project.path / ".env").write_text("MODEL=first-model\n")
    (project.path / "prompt.md").write_text("first prompt")
    (project.path / "x.yaml").write_text(
        "agents:\n- harness: command\n  model: $MODEL\n  system_prompt_file: prompt.md\n"
        "  parameters: {command: 'echo $AGENT_MODEL $AGENT_SYSTEM_PROMPT > output.jsonl'}\n"
        "repetitions: 2\n"
    )
    project.run("--aec-experiment=x.yaml").assert_outcomes(failed=2)
    records = project.records()
    assert len(records) == 2
    assert {record["outputs"]["output_excerpt"] for record in records} == {
        "first-model first prompt\n"
    }
    assert (project.path / "aec-bench.toml").read_text() == "broken"


def test_an_option_wins_over_a_key_of_the_experiment_alone(anyhow: Project) -> None:
    anyhow.task()
    (anyhow.path / "x.yaml").write_text(
        "experiment_id: from-file\nrepetitions: 2\nagents: [{harness: oracle}]\n"
    )
    result = anyhow.run("--aec-experiment=x.yaml", f"--aec-agent=half={HALF}")
    result.assert_outcomes(failed=2)
    assert {(r["experiment_id"], r["agent"]["name"]) for r in anyhow.records()} == {
        ("from-file", "half")
    }


WITHOUT_DEV = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aiohttp", "docker", "hypothesis", "jsonschema", "pyte"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import pytest
sys.exit(pytest.main(["--aec-show-config", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]))
"""


def test_a_clone_without_packages_for_development_shows_its_configuration() -> None:
    argv = [sys.executable, "-c", WITHOUT_DEV]
    result = subprocess.run(argv, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert re.search("^tasks_root +tasks +", result.stdout, re.MULTILINE)
