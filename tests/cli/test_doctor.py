"""``aec-bench doctor``."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends import BACKENDS
from pytest_aecbench.providers.routing import PROVIDERS

# Runs the command without the modules that come before it.
DOCTOR = """
import sys
names = sys.argv.pop(1).split(",")
sys.modules.update(dict.fromkeys(filter(None, names)))
from pytest_aecbench.cli import main
main(["doctor", "--timeout=60", *sys.argv[1:]])
"""
KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-1234567890",
    "AZURE_OPENAI_API_KEY": "azure-1234567890",
    "AZURE_OPENAI_ENDPOINT": "https://azure.invalid/openai/v1/",
    "OPENAI_API_KEY": "sk-1234567890",
    "TOGETHER_API_KEY": "together-1234567890",
}


def doctor(
    directory: Path, *arguments: str, without: str = "", **environment: str
) -> dict[str, Any]:
    """Return the findings by name, as a person sees them who has set nothing but this."""
    done = run(directory, "--json", *arguments, without=without, **environment)
    assert_quiet(done)
    return {finding["name"]: finding for finding in json.loads(done.stdout)}


def assert_quiet(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    # Modal warns of Pythons that it will not support for long.
    assert [line for line in done.stderr.splitlines() if "DeprecationError" not in line] == []


def run(
    directory: Path, *arguments: str, without: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", DOCTOR, without, *arguments],
        cwd=directory,
        env={
            "HOME": str(directory),
            "PATH": os.environ["PATH"],
            "DOCKER_HOST": "unix:///nowhere.sock",
            "AWS_EC2_METADATA_DISABLED": "true",
            **environment,
        },
        capture_output=True,
        text=True,
    )


def test_a_bare_machine_is_told_what_each_provider_and_backend_lacks(tmp_path: Path) -> None:
    found = doctor(tmp_path)
    assert {*PROVIDERS, *BACKENDS} <= set(found)
    assert {name for name in (*PROVIDERS, *BACKENDS) if found[name]["ok"]} == {"local", "scripted"}
    details = {name: finding["detail"] for name, finding in found.items()}
    assert details["openai"] == "OPENAI_API_KEY is not set; set it in the environment or in .env"
    assert details["azure"] == (
        "AZURE_OPENAI_API_KEY and AZURE_OPENAI_ENDPOINT are not set; "
        "set them in the environment or in .env"
    )
    assert details["bedrock"].startswith("AWS_REGION is not set; ")
    assert details["docker"] == (
        "no engine answers at unix:///nowhere.sock; start Docker, or set DOCKER_HOST"
    )
    assert details["e2b"].startswith("E2B_API_KEY is not set; create a key")
    assert details["daytona"].startswith("DAYTONA_API_KEY is not set; create a key")
    assert details["modal"].startswith("MODAL_TOKEN_ID and MODAL_TOKEN_SECRET are not set; run")
    assert details["local"].startswith("local (")
    assert details["settings"].endswith("without aec-bench.toml; aec-bench init adds one")
    assert details["tasks"].endswith("is not a directory; aec-bench task new makes a task")
    for name in ("Python", "pytest", "pytest-xdist", "ledger", "jobs", "prices", "mcp"):
        assert found[name]["ok"], name


def test_keys_are_named_with_their_source_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "aec-bench.toml").write_text("")
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEYS['OPENAI_API_KEY']}\n")
    others = {name: value for name, value in KEYS.items() if name != "OPENAI_API_KEY"}
    region = {"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": "bedrock-1234567890"}
    done = run(tmp_path, **others, **region)
    assert_quiet(done)
    for secret in (*KEYS.values(), region["AWS_BEARER_TOKEN_BEDROCK"]):
        assert secret not in done.stdout
    lines = {line.split()[1]: line.split(maxsplit=3)[2:] for line in done.stdout.splitlines()}
    assert lines["openai"] == ["ok", "OPENAI_API_KEY from .env"]
    assert lines["anthropic"] == ["ok", "ANTHROPIC_API_KEY from the environment"]
    assert lines["azure"] == [
        "ok",
        "AZURE_OPENAI_API_KEY from the environment, AZURE_OPENAI_ENDPOINT from the environment",
    ]
    assert lines["together"][0] == lines["bedrock"][0] == "ok"


def test_a_missing_extra_comes_with_the_command_that_installs_it(tmp_path: Path) -> None:
    found = doctor(tmp_path, without="anthropic,docker,modal")
    details = {name: finding["detail"] for name, finding in found.items()}
    assert details["anthropic"] == (
        "anthropic is not installed; pip install 'pytest-aecbench[agents]'; "
        "ANTHROPIC_API_KEY is not set; set it in the environment or in .env"
    )
    assert details["docker"] == "docker is not installed; pip install 'pytest-aecbench[docker]'"
    assert details["modal"] == "modal is not installed; pip install 'pytest-aecbench[modal]'"


def test_a_vendor_that_does_not_answer_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = doctor(
            tmp_path,
            "--timeout=15",
            E2B_API_KEY=f"e2b_{'0123456789' * 4}",
            E2B_API_URL=url,
            MODAL_TOKEN_ID="ak-1234567890",
            MODAL_TOKEN_SECRET="as-1234567890",
            MODAL_SERVER_URL=url,
        )
    for name in ("e2b", "modal"):
        assert found[name] == {
            "kind": "backend",
            "name": name,
            "ok": False,
            "detail": "no answer within 15 s; check the network, or raise --timeout",
            "answered": False,
        }
    assert found["local"]["ok"]


OWN = """
from pytest_aecbench.backends.local import LocalBackend

class Broken(LocalBackend):
    def preflight(self):
        raise ValueError("the key sk-own-1234567890 is odd")

class Plain:
    build_environment = launch_trial = execute_trial = collect_outputs = teardown = print
"""


@pytest.mark.parametrize(
    ("name", "is_ok", "detail"),
    [
        ("own.Broken", False, "ValueError: the key <OWN_API_KEY> is odd"),
        ("own.Plain", True, "own.Plain"),
        ("own.Gone", False, "'own.Gone' is not a class; use the dotted path of one"),
    ],
)
def test_the_projects_own_backend_is_checked(
    tmp_path: Path, name: str, is_ok: bool, detail: str
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "aec-bench.toml").write_text(f'[compute]\nbackend = "{name}"\n')
    without = "daytona,docker,e2b,modal"
    found = doctor(tmp_path, without=without, OWN_API_KEY="sk-own-1234567890")[name]
    assert (found["ok"], found["detail"]) == (is_ok, detail)


def test_a_project_that_is_broken_does_not_end_the_examination(tmp_path: Path) -> None:
    (tmp_path / "aec-bench.toml").write_text("[compute]\nbackend = 7\n")
    found = doctor(tmp_path, without="daytona,docker,e2b,modal")
    assert not found["settings"]["ok"]
    assert found["settings"]["detail"].startswith("aec-bench.toml: compute.backend: ")
    assert found["local"]["ok"]


def test_a_file_in_the_way_of_a_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "aec-bench.toml").write_text('[paths]\nledger = "results/ledger"\n')
    (tmp_path / "results").write_text("x")
    found = doctor(tmp_path, without="daytona,docker,e2b,modal")
    assert found["ledger"]["detail"] == (
        f"{tmp_path / 'results'} is not a directory; move it, or set another path"
    )
    assert "GB free" in found["jobs"]["detail"]
    assert not (tmp_path / "jobs").exists()


@pytest.mark.needs("docker")
def test_an_engine_that_runs_is_found(tmp_path: Path) -> None:
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    found = doctor(tmp_path, without="daytona,e2b,modal", DOCKER_HOST=host)["docker"]
    assert found["ok"], found["detail"]
    assert "engine " in found["detail"]
