"""The files that settings come from: what they may say, and the words they are refused with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.settings import layers
from pytest_aecbench.settings.layers import Layer
from pytest_aecbench.settings.schema import ExperimentConfig, PathsConfig

ANYHOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return tmp_path


def experiment(here: Path, text: str) -> Layer:
    (here / "x.yaml").write_text(text)
    return layers.experiment_layer(here / "x.yaml")


def project(here: Path, text: str) -> Layer:
    (here / "aec-bench.toml").write_text(text)
    return layers.project_layer(here)


def user(here: Path, text: str) -> Layer:
    path = here / "xdg/aec-bench/config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return layers.user_layer()


def test_every_key_of_an_experiment_is_a_setting(here: Path) -> None:
    (here / "prompts").mkdir()
    (here / "prompts/electrical.md").write_text("Be brief.\n")
    layer = experiment(here, FULL)
    assert {name: value for name, (value, _) in layer.items()} == {
        "experiment_id": "exp-20260412-001",
        "experiment_name": "Claude vs GPT electrical",
        "description": "Optional narrative description",
        "dataset": "electrical-v1@1.0.0",
        "include_patterns": ["electrical/*"],
        "exclude_patterns": [],
        "domains": ["electrical"],
        "difficulties": ["easy", "medium"],
        "lifecycle": ["active"],
        "agents": [
            {
                "name": "claude-tool-loop",
                "harness": "tool_loop",
                "model": "claude-sonnet-4-20250514",
                "parameters": {"max_turns": 12},
                "system_prompt": "Be brief.\n",
                "client": {"kind": "bedrock", "settings": {"region": "$AWS_REGION"}},
            },
            {
                "name": "gpt4-direct",
                "harness": "direct",
                "model": "gpt-4.1",
                "parameters": {"max_tokens": 8192},
            },
        ],
        "backend": "modal",
        "compute:modal": {},
        "compute:modal:environment": "aec-bench-prod",
        "compute:modal:timeout_sec": 600,
        "timeout_override_sec": 1200.0,
        "memory_mb": 8192,
        "cpus": 2.0,
        "concurrency": 4,
        "repetitions": 3,
        "verify": False,
    }
    assert layer["memory_mb"][1] == "x.yaml: compute.resource_limits.memory_mb"
    assert layer["compute:modal:timeout_sec"][1] == "x.yaml: compute.modal.timeout_sec"


FULL = """
experiment_id: exp-20260412-001
name: "Claude vs GPT electrical"
description: "Optional narrative description"

tasks:
  dataset: electrical-v1@1.0.0
  include_patterns: ["electrical/*"]
  exclude_patterns: []
  domains:      ["electrical"]
  difficulties: ["easy", "medium"]
  lifecycle: active

agents:
  - name: claude-tool-loop
    harness: tool_loop
    model: claude-sonnet-4-20250514
    parameters:
      max_turns: 12
    system_prompt_file: prompts/electrical.md   # optional
    client: {kind: bedrock, settings: {region: $AWS_REGION}}

  - name: gpt4-direct
    adapter: direct
    model: gpt-4.1
    parameters:
      max_tokens: 8192

compute:
  backend: modal
  modal:
    environment: aec-bench-prod
    timeout_sec: 600
  resource_limits:
    timeout_override: 1200
    memory_mb: 8192
    cpus: 2
    n_concurrent_trials: 4

repetitions: 3
disable_verification: false
"""


def test_every_key_of_a_project_is_a_setting(here: Path) -> None:
    paths = [*PathsConfig.model_fields]
    assert paths == ["tasks", "templates", "seeds", "ledger", "feedback", "datasets", "jobs"]
    lines = "".join(f'{name} = "in/{name}"\n' for name in paths)
    layer = project(here, f'[project]\nname = "b"\n[paths]\n{lines}[compute]\nbackend = "modal"\n')
    assert layer == {
        "project_name": ("b", "aec-bench.toml: project.name"),
        **{f"{name}_root": (f"in/{name}", f"aec-bench.toml: paths.{name}") for name in paths},
        "backend": ("modal", "aec-bench.toml: compute.backend"),
    }


def test_every_key_of_a_user_is_a_setting(here: Path) -> None:
    values = {key: f"in/{key}" for key in layers.USER_KEYS}
    where = "xdg/aec-bench/config.json"
    assert user(here, json.dumps(values)) == {
        key: (value, f"{where}: {key}") for key, value in values.items()
    }


def test_without_a_file_a_user_has_no_settings(here: Path) -> None:
    assert layers.user_layer() == {}


def test_the_users_file_is_below_home_unless_xdg_says_otherwise(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(here))
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert layers.user_file() == here / ".config/aec-bench/config.json"


def test_the_root_is_the_nearest_directory_upward_with_a_project_file(here: Path) -> None:
    inner = here / "a/b/c"
    inner.mkdir(parents=True)
    assert layers.find_root(inner) is None
    (here / "aec-bench.toml").touch()
    assert layers.find_root(inner) == here
    (here / "a/b/aec-bench.toml").touch()
    assert layers.find_root(inner) == here / "a/b"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("repetitons: 2", "repetitons: unknown key; did you mean 'repetitions'?"),
        ("zzz: 2", "zzz: unknown key; use one of 'agents', 'compute', 'description', "),
        ("tasks: {domain: [a]}", "tasks.domain: unknown key; did you mean 'domains'?"),
        ("tasks: {domains: []}", "tasks.domains: [] would select nothing; name some or leave"),
        ("tasks: {domains: civil}", "tasks.domains: 'civil' is not valid; use a list of strings"),
        ("tasks: {difficulties: [eazy]}", "tasks.difficulties.0: 'eazy' is not valid; use one of"),
        ("tasks: {lifecycle: dead}", "tasks.lifecycle.0: 'dead' is not valid; use one of 'active'"),
        ("tasks: [a]", "tasks: ['a'] is not valid; use keys with values"),
        ("agents: []", "agents: [] is not valid; use a list of at least one agent"),
        ("agents: [oracle]", "agents.0: 'oracle' is not valid; use keys with values"),
        ("agents: [{name: a}]", "agents.0.harness: missing; add a harness such as 'oracle'"),
        ("agents: [{harness: a, adapter: a}]", "agents.0: has both 'adapter' and 'harness'; keep"),
        ("agents: [{harness: a, modle: b}]", "agents.0.modle: unknown key; did you mean 'model'?"),
        ("agents: [{harness: a, name: 'x y'}]", "agents.0.name: 'x y' is not valid; use a name of"),
        ("agents: [{harness: a, client: {}}]", "agents.0.client.kind: missing; add the provider's"),
        (
            "agents: [{harness: a, system_prompt_file: no.md}]",
            "agents.0.system_prompt_file: no.md: no such file or directory; add a readable file",
        ),
        ("repetitions: 0", "repetitions: 0 is not valid; use a whole number from 1"),
        (
            f"repetitions: {10**15}",
            "repetitions: 1000000000000000 is not valid; use a whole number from 1 to",
        ),
        ("repetitions: 1.5", "repetitions: 1.5 is not valid; use a whole number from 1"),
        ("repetitions: '2'", "repetitions: '2' is not valid; use a whole number from 1"),
        (
            "disable_verification: yes",
            "disable_verification: 'yes' is not valid; use true or false",
        ),
        ("experiment_id: ../x", "experiment_id: '../x' is not valid; use 1 to 128 of the"),
        ("compute: {modal: x}", "compute.modal: 'x' is not valid; use "),
        (
            "compute: {resource_limits: {memory: 1}}",
            "compute.resource_limits.memory: unknown key; did you mean 'memory_mb'?",
        ),
        (
            "compute: {resource_limits: {timeout_override: -1}}",
            "compute.resource_limits.timeout_override: -1 is not valid; use a number of seconds",
        ),
    ],
)
def test_a_bad_experiment_is_one_line(here: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        experiment(here, text)
    assert str(caught.value).startswith(f"x.yaml: {problem}")
    assert "\n" not in str(caught.value)


def test_every_problem_of_a_file_gets_its_line(here: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        experiment(here, "repetitions: 0\nname: 1\n")
    assert str(caught.value).splitlines() == [
        "x.yaml: name: 1 is not valid; use a string that is not blank",
        "x.yaml: repetitions: 0 is not valid; use a whole number from 1 to 10000",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[path]", "path: unknown key; did you mean 'paths'?"),
        ('[paths]\nledgr = "x"', "paths.ledgr: unknown key; did you mean 'ledger'?"),
        ('[paths]\nledger = " "', "paths.ledger: ' ' is not valid; use a path below the project"),
        ("[paths]\nledger = 1", "paths.ledger: 1 is not valid; use a path below the project"),
        ("paths = 1", "paths: 1 is not valid; use a table"),
        ("[compute]\nbackend = true", "compute.backend: True is not valid; use a string that is"),
        ("[compute", "line 1: expected ']' at the end of a table declaration in '[compute'; write"),
    ],
)
def test_a_bad_project_is_one_line(here: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        project(here, text)
    assert str(caught.value).startswith(f"aec-bench.toml: {problem}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"ledgr_root": "x"}', "'ledgr_root' is an unknown key; did you mean 'ledger_root'?"),
        ('{"backend": "x"}', "'backend' is an unknown key; use one of 'datasets_root', "),
        ('{"ledger_root": 1}', "ledger_root: 1 is not valid; use a path"),
        ('{"ledger_root": ""}', "ledger_root: '' is not valid; use a path"),
    ],
)
def test_a_bad_users_file_is_one_line(here: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        user(here, text)
    assert str(caught.value).startswith(f"xdg/aec-bench/config.json: {problem}")


OTHER_KEYS = ["backend", "client", "domains", "harness", "kind", "ledger_root", "lifecycle"]
OTHER_KEYS += ["memory_mb", "model", "parameters", "paths", "resource_limits"]
WORDS = st.sampled_from([*ExperimentConfig.model_fields, *OTHER_KEYS]) | st.text(max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("load", [experiment, project, user])
@ANYHOW
@given(data=st.dictionaries(WORDS, VALUES, max_size=3))
def test_any_keys_and_values_are_settings_or_refused_in_lines(
    here: Path, load: Callable[[Path, str], Layer], data: dict[str, Any]
) -> None:
    # JSON is YAML; as TOML most of it is a syntax error, which is to be one line too.
    text = json.dumps(data)
    try:
        layer = load(here, text.encode("utf-8", "replace").decode())
    except SettingsError as error:
        for line in str(error).split("\n"):
            assert line.startswith(("x.yaml: ", "aec-bench.toml: ", "xdg/aec-bench/config.json: "))
            assert line.isprintable()
    else:
        json.dumps(layer, allow_nan=False)
