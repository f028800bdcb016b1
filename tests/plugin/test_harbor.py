"""Single-step tasks written for Harbor run unchanged."""

from __future__ import annotations

import pytest

from tests.project import SOLVE, Project

TOML = """
schema_version = "1.1"

[task]
name = "acme/hello"
authors = [{ name = "A. Author" }]

[metadata]
author_name = "A. Author"
difficulty = "easy"
category = "programming"
tags = ["trivial"]

[verifier]
timeout_sec = 120.0

[verifier.env]
EXPECTED = "hello"

[agent]
timeout_sec = 120.0

[solution.env]
GREETING = "hello"

[environment]
build_timeout_sec = 600.0
cpus = 1
memory = "2G"
storage = "10G"
network_mode = "no-network"

[environment.env]
PLACE = "world"
"""

DOCKERFILE = """
FROM ubuntu:24.04
ENV COLOUR=blue
WORKDIR /app
COPY seed.txt ./data/seed.txt
RUN true
"""


def test_a_harbor_task_runs_unchanged(anyhow: Project) -> None:
    anyhow.task(
        "harbor/hello",
        toml=TOML,
        instruction="Create /app/hello.txt with a greeting.",
        solve='cat data/seed.txt; echo "$GREETING $PLACE $COLOUR" > /app/hello.txt',
        verify=None,
        test_sh='if [ "$(cat /app/hello.txt)" = "$EXPECTED world blue" ] && '
        '[ "$(cat /app/data/seed.txt)" = seed ] && [ "$PWD" = /app ]; then\n'
        "echo 1 > /logs/verifier/reward.txt\nelse\necho 0 > /logs/verifier/reward.txt\nfi\n",
        files={"environment/Dockerfile": DOCKERFILE, "environment/seed.txt": "seed"},
    )
    anyhow.run("-W", "error").assert_outcomes(passed=1)
    record = anyhow.record()
    assert record["evaluation"]["reward"] == 1
    paths = {file["path"] for file in record["outputs"]["files"]}
    assert {"workspace/hello.txt", "workspace/data/seed.txt"} <= paths


@pytest.mark.parametrize(
    "mode", [pytest.param("namespaces", marks=pytest.mark.needs("namespaces")), "rewriting"]
)
@pytest.mark.parametrize("verifier", ["shared", "separate"])
def test_a_workdir_in_the_task_goes_before_the_images(
    project: Project, mode: str, verifier: str
) -> None:
    project.task(
        toml=f'''
            [environment]
            workdir = "/srv/site"
            [verifier]
            environment_mode = "{verifier}"
            ''',
        solve="echo here > where.txt",
        verify=None,
        test_sh="[ $(cat where.txt) = here ] && [ $(cat /srv/site/where.txt) = here ] &&\n"
        "echo 1 > /logs/verifier/reward.txt\n",
        files={"environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n"},
    )
    project.run(f"--aec-local-mode={mode}").assert_outcomes(passed=1)
    assert "workspace/where.txt" in {file["path"] for file in project.record()["outputs"]["files"]}


@pytest.mark.needs("namespaces")
def test_no_network_means_none_but_the_loopback(project: Project) -> None:
    project.task(
        toml='[environment]\nnetwork_mode = "no-network"\n',
        solve="cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' ' > /workspace/links.txt",
    )
    project.run("--aec-local-mode=namespaces").assert_outcomes(failed=1)
    jobs = project.path / project.record()["outputs"]["jobs_dir"]
    assert (jobs / "workspace/links.txt").read_text().split() == ["lo"]


HEALTHCHECK = """
[environment.healthcheck]
command = "echo x >> /logs/tries; [ $(wc -l < /logs/tries) -ge {needed} ] || {{ echo why; false; }}"
interval_sec = 0
start_interval_sec = 0
start_period_sec = {start_period_sec}
retries = 3
"""


@pytest.mark.parametrize("mode", ["separate", "shared"])
def test_the_agent_starts_once_the_sandbox_is_healthy(anyhow: Project, mode: str) -> None:
    toml = HEALTHCHECK.format(needed=3, start_period_sec=0)
    anyhow.task(
        toml=f'{toml}[verifier]\nenvironment_mode = "{mode}"\n',
        solve=f"test $(wc -l < /logs/tries) = 3\n{SOLVE}",
    )
    anyhow.run().assert_outcomes(passed=1)
    assert anyhow.record()["agent_result"]["status"] == "completed"


def test_failures_in_the_start_period_do_not_count(project: Project) -> None:
    project.task(toml=HEALTHCHECK.format(needed=9, start_period_sec=1000))
    project.run().assert_outcomes(passed=1)


def test_a_sandbox_that_never_gets_healthy_is_an_error_and_no_zero(anyhow: Project) -> None:
    anyhow.task(toml=HEALTHCHECK.format(needed=4, start_period_sec=0))
    result = anyhow.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*LaunchError: healthcheck: *in 3 tries; exit code 1, 'why'*"])
    evaluation = anyhow.record()["evaluation"]
    assert (evaluation["validity"], evaluation["reward"]) == ("error", None)
    assert evaluation["error"]["cause"] == "launch"


def test_a_task_of_several_steps_is_refused_in_one_line(project: Project) -> None:
    project.task(toml='[[steps]]\nname = "one"\n')
    result = project.run()
    result.assert_outcomes(errors=1)
    assert "task.toml: steps: a task of several steps cannot be run" in result.stdout.str()
