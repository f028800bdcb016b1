"""The schema of task.toml: defaults, what is refused, and the words it is refused with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticUndefined

from pytest_aecbench.tasks import schema
from pytest_aecbench.tasks.schema import TaskConfig, parse_config

DOCS = Path(__file__).parents[2] / "docs" / "tasks.md"

FULL = """
version = "1.0"

[metadata]
difficulty = "easy"
visibility = "public"
category   = "reasoning"
tags       = ["electrical", "AS-NZS-3008"]

[agent]
timeout_sec = 600.0

[verifier]
timeout_sec = 300.0

[environment]
extensions         = []
build_timeout_sec  = 600.0
cpus               = 2
memory_mb          = 4096
storage_mb         = 10240
allow_internet     = true
"""

# Every key that Harbor's schema has for a task of one step, as its own writer puts them.
HARBOR = """
schema_version = "1.4"
source = "terminal-bench"
artifacts = []

[task]
name = "harbor/hello-world"
version = "1.0.0"
description = "Writes a greeting"
authors = [{ name = "A", email = "a@example.org" }]
keywords = ["trivial"]

[metadata]
author_name = "A"
author_email = "a@example.org"
difficulty = "medium"
difficulty_explanation = "Anyone can do it"
category = "programming"
subcategory = "files"
tags = []
expert_time_estimate_min = 30.0
junior_time_estimate_min = 60.0

[agent]
timeout_sec = 900
setup_timeout_sec = 60
user = "agent"

[verifier]
timeout_sec = 900.0
user = 0
environment_mode = "separate"
env = { API_KEY = "${API_KEY}", JUDGE = "${JUDGE:-none}" }
collect = []

[solution]
env = { SEED = "1" }

[environment]
build_timeout_sec = 600.0
docker_image = "example.org/hello:1"
os = "linux"
cpus = 1
memory = "2G"
storage = "10240M"
gpus = 0
gpu_types = ["H100"]
allow_internet = true
network_mode = "no-network"
workdir = "/app"
mcp_servers = [{ name = "docs", transport = "sse", url = "http://docs:8000/sse" }]
env = { LANG = "C.UTF-8" }
"""


def config_of(text: str) -> TaskConfig:
    config, problems, _ = parse_config(text)
    assert problems == ()
    assert config is not None
    return config


def test_the_documented_schema_is_read_in_full() -> None:
    assert parse_config(FULL).warnings == ()
    config = config_of(FULL)
    assert config.version == "1.0"
    assert config.metadata.difficulty == "easy"
    assert config.metadata.visibility == "public"
    assert config.metadata.category == "reasoning"
    assert config.metadata.tags == ("electrical", "AS-NZS-3008")
    assert (config.agent.timeout_sec, config.verifier.timeout_sec) == (600.0, 300.0)
    assert config.environment.extensions == ()
    assert config.environment.build_timeout_sec == 600.0
    assert config.environment.cpus == 2
    assert (config.environment.memory_mb, config.environment.storage_mb) == (4096, 10240)
    assert config.environment.allow_internet is True


def test_an_empty_file_has_the_documented_defaults() -> None:
    config = config_of("")
    assert config.metadata.model_dump() == {
        "domain": None,
        "difficulty": None,
        "visibility": "public",
        "lifecycle": "active",
        "category": None,
        "tags": (),
        "pass_threshold": 1.0,
        "check_allow": (),
    }
    assert config.agent.model_dump() == {"timeout_sec": 600.0, "user": None}
    assert config.verifier.model_dump() == {
        "timeout_sec": 300.0,
        "environment_mode": None,
        "env": {},
        "user": None,
    }
    assert config.environment.model_dump() == {
        "extensions": (),
        "docker_image": None,
        "build_timeout_sec": 600.0,
        "cpus": None,
        "memory_mb": None,
        "storage_mb": None,
        "gpus": 0,
        "allow_internet": True,
        "network_mode": None,
        "os": "linux",
        "workdir": None,
        "env": {},
        "healthcheck": None,
        "tools": (),
        "mcp_servers": (),
    }
    assert config.solution.env == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("retries = 2", "healthcheck.command: missing; add a shell command"),
        ("command = ' '", "healthcheck.command: ' ' is not valid; use a shell command"),
        (
            "command = 'x'\nretries = 0",
            "healthcheck.retries: 0 is not valid; use a whole number above 0",
        ),
        (
            "command = 'x'\ntimeout_sec = 0",
            "healthcheck.timeout_sec: 0 is not valid; use a number of seconds from 0.001 to 1e9",
        ),
    ],
)
def test_a_bad_healthcheck_is_one_line(text: str, problem: str) -> None:
    parsed = parse_config(f"[environment.healthcheck]\n{text}\n")
    assert parsed.problems == (f"environment.{problem}",)


def test_a_slip_in_a_healthcheck_is_noticed() -> None:
    parsed = parse_config("[environment.healthcheck]\ncommand = 'x'\nretrys = 2\n")
    assert parsed.warnings == (
        "environment.healthcheck.retrys: unknown key; did you mean 'retries'?",
    )


def test_a_harbor_task_is_read_without_complaint() -> None:
    assert parse_config(HARBOR).warnings == ()
    config = config_of(HARBOR)
    assert (config.agent.user, config.verifier.user) == ("agent", "0")
    assert config.verifier.environment_mode == "separate"
    assert config.verifier.env == {"API_KEY": "${API_KEY}", "JUDGE": "${JUDGE:-none}"}
    assert config.solution.env == {"SEED": "1"}
    assert config.environment.docker_image == "example.org/hello:1"
    assert (config.environment.memory_mb, config.environment.storage_mb) == (2048, 10240)
    assert config.environment.workdir == "/app"
    assert config.environment.allow_internet is False


@pytest.mark.parametrize(
    ("size", "megabytes"),
    [("2G", 2048), ("1.5g", 1536), ("512M", 512), ("512 MB", 512), ("1GiB", 1024), ("2048K", 2)],
)
def test_harbor_sizes_become_megabytes(size: str, megabytes: int) -> None:
    assert config_of(f'[environment]\nmemory = "{size}"').environment.memory_mb == megabytes


@pytest.mark.parametrize(
    ("text", "internet"),
    [
        ("", True),
        ("allow_internet = false", False),
        ('network_mode = "public"', True),
        ('network_mode = "no-network"', False),
        ('allow_internet = true\nnetwork_mode = "no-network"', False),
        ('allow_internet = false\nnetwork_mode = "public"', True),
    ],
)
def test_network_mode_goes_before_allow_internet(text: str, internet: bool) -> None:
    assert config_of(f"[environment]\n{text}").environment.allow_internet is internet


LIFECYCLES = "'active', 'deprecated', 'proposed', 'retired'"
OWN_IMAGE = "leave it out and set verifier.environment_mode to one of 'separate', 'shared'"
HOSTS = "leave it out and set environment.network_mode to one of 'no-network', 'public'"
SECONDS = "use a number of seconds from 0.001 to 1e9"
STRING = "use a string that is not blank"
STRINGS = "use an array of strings that are not blank"
MEGABYTES = "use a whole number of megabytes from 1 to 100000000"
ENV = "use names of letters, digits and '_' with strings as values"


@pytest.mark.parametrize(
    ("table", "line", "problem"),
    [
        ("agent", "timeout_sec = 1e-9", f"agent.timeout_sec: 1e-09 is not valid; {SECONDS}"),
        (
            "environment",
            f"memory_mb = {10**15}",
            f"environment.memory_mb: {10**15} is not valid; {MEGABYTES}",
        ),
        (
            "metadata",
            'difficulty = "eazy"',
            "metadata.difficulty: 'eazy' is not valid; use one of 'easy', 'hard', 'medium'",
        ),
        (
            "metadata",
            "difficulty = 1",
            "metadata.difficulty: 1 is not valid; use one of 'easy', 'hard', 'medium'",
        ),
        (
            "metadata",
            'visibility = "secret"',
            "metadata.visibility: 'secret' is not valid; use one of 'holdout', 'public'",
        ),
        (
            "metadata",
            'lifecycle = "old"',
            f"metadata.lifecycle: 'old' is not valid; use one of {LIFECYCLES}",
        ),
        ("metadata", 'domain = ""', f"metadata.domain: '' is not valid; {STRING}"),
        ("metadata", "category = 1", f"metadata.category: 1 is not valid; {STRING}"),
        ("metadata", 'tags = "easy"', f"metadata.tags: 'easy' is not valid; {STRINGS}"),
        ("metadata", 'tags = ["a", " "]', f"metadata.tags.1: ' ' is not valid; {STRINGS}"),
        ("metadata", "tags = [1]", f"metadata.tags.0: 1 is not valid; {STRINGS}"),
        (
            "metadata",
            "pass_threshold = 1.1",
            "metadata.pass_threshold: 1.1 is not valid; use a number from 0 to 1",
        ),
        (
            "metadata",
            "pass_threshold = nan",
            "metadata.pass_threshold: nan is not valid; use a number from 0 to 1",
        ),
        ("agent", "timeout_sec = 0", f"agent.timeout_sec: 0 is not valid; {SECONDS}"),
        ("agent", "timeout_sec = -1.5", f"agent.timeout_sec: -1.5 is not valid; {SECONDS}"),
        ("agent", "timeout_sec = inf", f"agent.timeout_sec: inf is not valid; {SECONDS}"),
        ("agent", "timeout_sec = nan", f"agent.timeout_sec: nan is not valid; {SECONDS}"),
        ("agent", "timeout_sec = true", f"agent.timeout_sec: True is not valid; {SECONDS}"),
        ("agent", "timeout_sec = 1e12", f"agent.timeout_sec: {1e12} is not valid; {SECONDS}"),
        ("agent", 'user = "a b"', "agent.user: 'a b' is not valid; use a user's name or number"),
        ("agent", "user = true", "agent.user: True is not valid; use a user's name or number"),
        ("verifier", 'timeout_sec = "5"', f"verifier.timeout_sec: '5' is not valid; {SECONDS}"),
        (
            "verifier",
            'environment_mode = "both"',
            "verifier.environment_mode: 'both' is not valid; use one of 'separate', 'shared'",
        ),
        ("verifier", "env = 3", f"verifier.env: 3 is not valid; {ENV}"),
        ("verifier", "env = { A = 1 }", f"verifier.env.A: 1 is not valid; {ENV}"),
        (
            "verifier",
            'env = { "a-b" = "1" }',
            f"verifier.env.a-b: 'a-b' is not valid; {ENV}",
        ),
        ("environment", 'cpus = "2"', "environment.cpus: '2' is not valid; use a number above 0"),
        ("environment", "cpus = 0", "environment.cpus: 0 is not valid; use a number above 0"),
        ("environment", "memory_mb = 0", f"environment.memory_mb: 0 is not valid; {MEGABYTES}"),
        ("environment", "memory_mb = 1.5", f"environment.memory_mb: 1.5 is not valid; {MEGABYTES}"),
        (
            "environment",
            "storage_mb = true",
            f"environment.storage_mb: True is not valid; {MEGABYTES}",
        ),
        (
            "environment",
            'memory = "2 loaves"',
            "environment.memory: '2 loaves' is not valid; use a size such as '512M' or '2G'",
        ),
        (
            "environment",
            'memory = "2G"\nmemory_mb = 1024',
            "environment.memory: '2G' is not the same as memory_mb; leave one of them out",
        ),
        (
            "environment",
            'allow_internet = "no"',
            "environment.allow_internet: 'no' is not valid; use true or false",
        ),
        (
            "environment",
            'network_mode = "allowlist"',
            "environment.network_mode: 'allowlist' is not valid; use one of 'no-network', 'public'",
        ),
        (
            "environment",
            'workdir = "app"',
            "environment.workdir: 'app' is not valid; use a path that starts with '/'",
        ),
        (
            "environment",
            'os = "windows"',
            "environment.os: 'windows' is not valid; use 'linux'",
        ),
        ("environment", "extensions = [0]", f"environment.extensions.0: 0 is not valid; {STRINGS}"),
        ("solution", "env = []", f"solution.env: [] is not valid; {ENV}"),
    ],
)
def test_a_bad_value_is_named_with_what_would_be_right(table: str, line: str, problem: str) -> None:
    config, problems, _ = parse_config(f"[{table}]\n{line}\n")
    assert problems == (problem,)
    assert config is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version = 1.0", f"version: 1.0 is not valid; {STRING}"),
        ("schema_version = 1", f"schema_version: 1 is not valid; {STRING}"),
        ("metadata = 3", "metadata: 3 is not valid; use a table"),
        ("[[agent]]\ntimeout_sec = 1", "agent: [{'timeout_sec': 1}] is not valid; use a table"),
        (
            '[[steps]]\nname = "one"',
            "steps: a task of several steps cannot be run; make each step a task of its own",
        ),
        (
            '[verifier.environment]\ndocker_image = "x"',
            f"verifier.environment: the verifier cannot have an image of its own; {OWN_IMAGE}",
        ),
        (
            '[environment]\nallowed_hosts = ["a"]',
            f"environment.allowed_hosts: single hosts cannot be allowed; {HOSTS}",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(text: str, problem: str) -> None:
    assert parse_config(text).problems == (problem,)


def test_all_problems_are_told_at_once() -> None:
    text = '[metadata]\ndifficulty = "eazy"\n[agent]\ntimeout_sec = 0\n[environment]\ncpus = "2"\n'
    assert [problem.split(":")[0] for problem in parse_config(text).problems] == [
        "metadata.difficulty",
        "agent.timeout_sec",
        "environment.cpus",
    ]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "[metadata]\ndificulty = 1",
            "metadata.dificulty: unknown key; did you mean 'difficulty'?",
        ),
        ("[agent]\ntimeout = 5", "agent.timeout: unknown key; did you mean 'timeout_sec'?"),
        ("[agent]\nzzz = 5", "agent.zzz: unknown key; use one of 'timeout_sec', 'user'"),
        (
            "[enviroment]\ncpus = 1",
            "enviroment: unknown key; did you mean 'environment'?",
        ),
        (
            '[agent]\n"a\\nb" = 5',
            r"agent.'a\nb': unknown key; use one of 'timeout_sec', 'user'",
        ),
        (
            "[environment]\ntpu = 2",
            "environment.tpu: 2 has no effect; the task runs without it",
        ),
        (
            'artifacts = ["/app/x"]',
            "artifacts: ['/app/x'] has no effect; the task runs without it",
        ),
    ],
)
def test_a_key_that_does_nothing_is_a_warning(text: str, warning: str) -> None:
    assert parse_config(text).warnings == (warning,)
    config_of(text)


def test_metadata_may_hold_keys_of_its_own() -> None:
    text = '[metadata]\nlanguages = ["python"]\nauthor_name = "A"\nexpert_time_estimate_min = 3'
    assert parse_config(text).warnings == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[metadata]\ndifficulty = null\n",
            "line 2: invalid value in 'difficulty = null'; TOML has no null, leave the key out",
        ),
        (
            "[metadata]\r\ntags = [ None ]\r\n",
            "line 2: invalid value in 'tags = [ None ]'; TOML has no null, leave the key out",
        ),
        (
            "[environment]\nallow_internet = True\n",
            "line 2: invalid value in 'allow_internet = True'; write true or false",
        ),
        (
            "[metadata]\ndifficulty = easy\n",
            "line 2: invalid value in 'difficulty = easy'; write valid TOML",
        ),
        ("a = 1\na = 2", "line 2: cannot overwrite a value in 'a = 2'; write valid TOML"),
        ("\n\nx = [", "line 3: invalid value in 'x = ['; write valid TOML"),
        ("x = " + "[" * 20_000, "values are nested too deep; nest them less"),
        ("x = " + "9" * 5_000, "a number has too many digits; write a smaller one"),
    ],
)
def test_broken_toml_is_one_line_that_says_where(text: str, problem: str) -> None:
    assert parse_config(text) == (None, (problem,), ())


@pytest.mark.parametrize("digits", ["1" + "0" * 400, "0x" + "f" * 4_000])
@pytest.mark.parametrize("key", ["agent.timeout_sec", "environment.cpus", "environment.memory_mb"])
def test_numbers_beyond_any_machine_are_refused(key: str, digits: str) -> None:
    (problem,) = parse_config(f"{key} = {digits}").problems
    assert problem.startswith(f"{key}: ")
    assert len(problem) < 300


def test_equal_texts_are_parsed_once() -> None:
    assert parse_config(FULL) is parse_config(FULL)


def test_generated_tasks_that_differ_in_their_origin_alone_are_parsed_once() -> None:
    origins = [f'{FULL}\n[generation]\ntemplate = "a/b"\nindex = {index}\n' for index in (1, 2)]
    first, second = map(parse_config, origins)
    assert first is second
    assert first.problems == first.warnings == ()


@pytest.mark.parametrize("origin", ["index = [", "index = 1\n[metadata]\ndifficulty = 7"])
def test_what_only_looks_like_an_origin_is_read_like_the_rest(origin: str) -> None:
    assert parse_config(f"[agent]\ntimeout_sec = 5\n\n[generation]\n{origin}\n").problems


def test_the_package_does_not_import_pydantic_by_itself() -> None:
    code = "import sys, pytest_aecbench.tasks.task; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def written(default: object) -> str:
    """Return a default as the documentation writes it."""
    if isinstance(default, float):
        return f"{default:g}"
    if default is PydanticUndefined:
        return "needed"
    return "none" if default is None else json.dumps(default)


def test_every_key_is_documented_with_its_default() -> None:
    row = re.compile(r"^\| `(\w+\.[\w.]+)` \| [^|]+ \| `?([^|`]+)`? \| [^|]+ \|$", re.MULTILINE)
    assert dict(row.findall(DOCS.read_text(encoding="utf-8"))) == {
        f"{table}.{name}": written(field.default)
        for table, model in schema._TABLES.items()
        for name, field in model.model_fields.items()
    }


VALUES = st.recursive(
    st.sampled_from(["1", "-1", "0.5", "nan", "true", '"x"', '""', "1979-05-27", "[]", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | inner.map(lambda item: f"{{ a = {item} }}")
    ),
    max_leaves=4,
)
KEYS = st.sampled_from(
    [
        *(f"{table}.{name}" for table, m in schema._TABLES.items() for name in m.model_fields),
        *schema._NO_EFFECT,
        *schema._REFUSED,
        "environment.memory",
        "metadata",
        "version",
    ]
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=6))
def test_any_values_give_a_config_or_one_line_problems(lines: list[tuple[str, str]]) -> None:
    config, problems, warnings = parse_config("\n".join(f"{key} = {v}" for key, v in lines))
    assert (config is None) == bool(problems)
    for message in (*problems, *warnings):
        assert message.isprintable()
        assert "; " in message


@given(st.text(alphabet=st.sampled_from("[]{}=\"'\\.\n\r\t #ax1-_\x00é"), max_size=40))
def test_any_text_gives_a_config_or_one_line_problems(text: str) -> None:
    config, problems, _ = parse_config(text)
    assert (config is None) == bool(problems)
    assert all(problem.isprintable() for problem in problems)
