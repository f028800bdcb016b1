"""``aec-bench config``: every setting with its source, and this user's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    directory = tmp_path / "project/deep"
    directory.mkdir(parents=True)
    monkeypatch.chdir(directory)
    return directory.parent


def sources(aec_bench: Run) -> dict[str, tuple[object, str]]:
    rows = aec_bench("config", "view", "--json").json()
    return {row["setting"]: (row["value"], row["source"]) for row in rows}


def test_view_says_where_each_setting_comes_from(aec_bench: Run, project: Path) -> None:
    (project / "aec-bench.toml").write_text('[paths]\njobs = "out"\n[compute]\nbackend = "modal"\n')
    assert aec_bench("config", "set", "ledger_root", "mine/ledger").code == 0
    found = sources(aec_bench)
    assert found["root"] == (str(project), "aec-bench.toml")
    assert found["jobs_root"] == ("out", f"{project}/aec-bench.toml: paths.jobs")
    assert found["backend"][0] == "modal"
    assert found["seeds_root"] == ("seeds", "default")
    value, where = found["ledger_root"]
    assert value == "mine/ledger"
    assert where.endswith("xdg/aec-bench/config.json: ledger_root")
    table = aec_bench("config", "view").out
    assert table.splitlines()[0].split() == ["setting", "value", "from"]
    assert len(table.splitlines()) == len(found) + 1


def test_set_and_reset_change_one_key_and_leave_the_others(aec_bench: Run, project: Path) -> None:
    aec_bench("config", "set", "ledger_root", "a")
    assert aec_bench("config", "set", "jobs_root", "b", "--json").json() == {
        "ledger_root": "a",
        "jobs_root": "b",
    }
    assert aec_bench("config", "reset", "ledger_root", "--json").json() == {"jobs_root": "b"}
    assert aec_bench("config", "reset").code == 0
    assert sources(aec_bench)["jobs_root"] == ("jobs", "default")
    directory = project.parent / "xdg/aec-bench"
    assert [path.name for path in directory.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("set", "ledgr_root", "x"), "config set: 'ledgr_root' is an unknown key; did you mean"),
        (("set", "backend", "x"), "config set: 'backend' is an unknown key; use one of"),
        (("set", "jobs_root", " "), "config set: jobs_root: ' ' is not valid; use a path"),
        (("reset", "jobs"), "config reset: 'jobs' is an unknown key; did you mean 'jobs_root'?"),
        (
            ("set", "compute.modl.environment", "x"),
            "config set: 'compute.modl.environment' is an unknown key; 'modl' is not a backend",
        ),
        (
            ("set", "compute.modal", "x"),
            "config set: 'compute.modal' is an unknown key; write compute.modal.OPTION",
        ),
        (
            ("set", "compute.modal.environment", " "),
            "config set: compute.modal.environment: ' ' is not valid; use a text, a number",
        ),
        (("reset", "compute.docker"), "config reset: 'compute.docker.x' is an unknown key"),
    ],
)
def test_a_bad_key_or_value_is_one_line(
    aec_bench: Run, project: Path, arguments: tuple[str, ...], line: str
) -> None:
    ended = aec_bench("config", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"aec-bench: {line}")
    assert ended.err.count("\n") == 1
    assert not (project.parent / "xdg").exists()


def test_a_broken_file_is_one_line_until_it_is_reset(aec_bench: Run, project: Path) -> None:
    path = project.parent / "xdg/aec-bench/config.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    for arguments in (("view",), ("set", "jobs_root", "x")):
        ended = aec_bench("config", *arguments)
        assert ended.code == 2
        assert "write valid JSON" in ended.err
        assert ended.err.count("\n") == 1
    assert path.read_text() == "{"
    assert aec_bench("config", "reset").code == 0
    assert aec_bench("config", "view").code == 0


def test_a_file_that_cannot_be_written_is_one_line(aec_bench: Run, project: Path) -> None:
    (project.parent / "xdg").touch()
    ended = aec_bench("config", "set", "jobs_root", "x")
    assert ended.code == 2
    assert "config.json: cannot be written, " in ended.err
    assert ended.err.count("\n") == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_any_project_file_is_read_or_refused_in_lines(
    aec_bench: Run, project: Path, data: bytes
) -> None:
    (project / "aec-bench.toml").write_bytes(data)
    ended = aec_bench("config", "view")
    assert ended.code in (0, 2)
    assert all(line.startswith("aec-bench: ") for line in ended.err.splitlines()[:1])
    assert "Traceback" not in ended.err


def test_dotenv_is_loaded_and_never_shown(
    aec_bench: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_CLI_DOTENV", "x")  # so that it is taken away again
    monkeypatch.delenv("FROM_CLI_DOTENV")
    (project / "aec-bench.toml").write_text('[project]\nname = "hunter2-hunter2"\n')
    (project / ".env").write_text("FROM_CLI_DOTENV=hunter2-hunter2\n")
    assert sources(aec_bench)["project_name"][0] == "<FROM_CLI_DOTENV>"
    assert os.environ["FROM_CLI_DOTENV"] == "hunter2-hunter2"


@pytest.mark.parametrize("name", ["task", "experiment", "project"])
def test_schemas_are_printed(aec_bench: Run, name: str) -> None:
    assert aec_bench("schema", name).json()["$schema"].startswith("https://json-schema.org/")


def test_an_unknown_schema_is_one_line(aec_bench: Run) -> None:
    ended = aec_bench("schema", "expriment")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "aec-bench: schema: 'expriment' is not known; did you mean 'experiment'?\n"


@pytest.mark.parametrize(
    "command",
    [("config", "view"), ("config", "set"), ("config", "reset"), ("config", "gcp"), ("schema",)],
)
def test_help_has_an_example(aec_bench: Run, command: tuple[str, ...]) -> None:
    ended = aec_bench(*command, "--help")
    assert ended.code == 0
    assert f"Example: aec-bench {' '.join(command)}" in ended.out


def test_a_backends_options_can_be_set_and_are_read(aec_bench: Run, project: Path) -> None:
    (project / "aec-bench.toml").write_text('[compute]\nbackend = "modal"\n')
    for key, value in {"environment": "dev", "timeout_sec": "60", "verbose": "true"}.items():
        assert aec_bench("config", "set", f"compute.modal.{key}", value).code == 0
    found = sources(aec_bench)
    assert found["compute.modal.environment"][0] == "dev"
    assert found["compute.modal.timeout_sec"][0] == 60
    assert found["compute.modal.verbose"][0] is True
    (project / "aec-bench.toml").write_text(
        '[compute]\nbackend = "modal"\n[compute.modal]\nenvironment = "main"\n'
    )
    assert sources(aec_bench)["compute.modal.environment"][0] == "main"  # the project's own wins
    aec_bench("config", "set", "jobs_root", "b")
    assert aec_bench("config", "reset", "compute.modal", "--json").json() == {"jobs_root": "b"}
