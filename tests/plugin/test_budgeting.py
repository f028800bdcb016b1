"""A run that has cost all it may starts no further trial, and says so."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.plugin.conftest import with_workers_too
from tests.project import Project

pytestmark = pytest.mark.slow  # about costs, not versions

PAID = """
    import pytest
    from dataclasses import replace
    from pytest_aecbench.agents.oracle import OracleAgent

    class Paid(OracleAgent):
        def __init__(self, spec):
            super().__init__(spec)
            self.usd = float(spec.model) if spec.model else None

        def run(self, task, sandbox, limits):
            return replace(super().run(task, sandbox, limits), cost_usd=self.usd)

    def pytest_aecbench_make_agent(config, spec):
        return Paid(spec) if spec.harness == "paid" else None
    """


@pytest.fixture
def paid(anyhow: Project) -> Project:
    """Eight tasks, and an agent that asks for money."""
    for name in "abcdefgh":
        anyhow.task(f"civil/{name}", instruction=f"Task {name}.")
    anyhow.pytester.makeconftest(PAID)
    return anyhow


@with_workers_too
def test_no_trial_starts_once_the_limit_is_reached(paid: Project, own_machine: Path) -> None:
    asked = ("--aec-agent=paid:0.5", "--aec-experiment-id=mine")
    result = paid.run(*asked, "--aec-max-cost=1.5", "--junitxml=out.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    ran = len(paid.records())
    others = {"-n2": 1, "--aec-concurrency=4": 3}.get("".join(paid.mode), 0)
    assert 3 <= ran <= 3 + others  # which may be under way
    result.assert_outcomes(passed=ran, skipped=8 - ran)
    cost = f"have cost {0.5 * ran:.2f} USD, --aec-max-cost is 1.5"
    result.stdout.fnmatch_lines(
        [f"{8 - ran} trials not run: this run's attempts {cost}", "--aec-resume=mine runs them"]
    )
    skipped = [case.get("message") for case in ET.parse(paid.path / "out.xml").iter("skipped")]
    assert skipped == ["not run: --aec-max-cost of 1.5 USD is reached"] * (8 - ran)
    assert list(paid.path.glob("artefacts/ledger/*/.*")) == []
    assert list((own_machine / "runs").iterdir()) == []
    resumed = paid.run("--aec-agent=paid:0.5", "--aec-resume=mine", "--aec-max-cost=100")
    resumed.assert_outcomes(passed=8)
    assert resumed.ret == 0
    assert len(paid.records()) == 8


def test_what_is_reused_costs_nothing(paid: Project) -> None:
    agent = "--aec-agent=paid:1"
    paid.run(agent, "--aec-experiment-id=mine").assert_outcomes(passed=8)
    again = paid.run(agent, "--aec-resume=mine", "--aec-max-cost=0.01")
    again.assert_outcomes(passed=8)
    assert again.ret == 0


def test_unknown_costs_count_nothing_and_that_is_said(paid: Project) -> None:
    agents = ("--aec-agent=paid", "--aec-agent=paid:1")
    result = paid.run(*agents, "--aec-max-cost=2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*of unknown cost, counted as 0) have cost [23].00 USD*"])
    free = paid.run("--aec-agent=paid", "--aec-max-cost=0.01")
    free.assert_outcomes(passed=8)
    assert free.ret == 0


def test_no_gate_lets_a_run_pass_that_did_not_do_all(paid: Project) -> None:
    result = paid.run("--aec-agent=paid:1", "--aec-max-cost=1", "--aec-gate=mean>=0.5")
    assert "aec gate passed" in result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_trials_that_waited_for_their_turn_are_not_started_either(project: Project) -> None:
    for name in "abcd":
        project.task(f"civil/{name}", instruction=f"Task {name}.")
    project.pytester.makeconftest(PAID)
    limits = ("--aec-max-cost=1", "--aec-concurrency=1")
    result = project.run("-n4", "--aec-agent=paid:1", *limits)
    result.assert_outcomes(passed=1, skipped=3)
    assert len(project.records()) == 1
    assert list(project.path.glob("artefacts/ledger/*/.*")) == []


def test_a_trial_whose_record_cannot_be_made_counts_with_what_it_has_cost(
    anyhow: Project,
) -> None:
    for name in "abc":
        anyhow.task(f"civil/{name}")
    trouble = """
    @pytest.fixture
    def aec_reward(aec_reward, aec_trial):
        aec_trial.timing["agent"] = "long"
        aec_trial.agent_result = replace(aec_trial.agent_result, turns=3)
        return aec_reward
    """
    anyhow.pytester.makeconftest(PAID + trouble)
    anyhow.run("--aec-agent=paid:0.5", "--aec-max-cost=0.5").assert_outcomes(errors=1, skipped=2)
    record = anyhow.record()
    assert record["evaluation"]["error"]["type"] == "ValidationError"
    assert record["cost"]["usd"] == 0.5
    assert record["agent_result"]["turns"] == 3


UNNOTED = """
    @pytest.fixture
    def aec_reward(aec_reward, aec_settings):
        import os
        from pytest_aecbench.host.files import shared_directory
        (shared_directory("runs") / f"{{aec_settings.run_id}}.costs").mkdir()
        {then}
        return aec_reward
    """


def test_a_cost_that_cannot_be_noted_is_a_warning(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(PAID + UNNOTED.format(then=""))
    anyhow.run("--aec-agent=paid:0.5", "--aec-max-cost=9").assert_outcomes(passed=1)
    record = anyhow.record()
    assert (record["evaluation"]["reward"], record["cost"]["usd"]) == (1, 0.5)
    (warning,) = record["warnings"]
    assert warning.startswith("cost not counted for --aec-max-cost: ")


def test_a_worker_that_dies_and_whose_cost_cannot_be_noted_does_not_end_the_run(
    pytester: pytest.Pytester,
) -> None:
    project = Project(pytester, ("-n1",))
    project.task()
    project.pytester.makeconftest(PAID + UNNOTED.format(then="os._exit(9)"))
    result = project.run("--aec-agent=paid:0.5", "--aec-max-cost=9")
    result.assert_outcomes(errors=1)
    assert project.record()["evaluation"]["validity"] == "crashed"
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_a_skipped_trial_is_not_taken_for_one_that_died(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def aec_agent():
            pytest.skip("not today")
        """
    )
    anyhow.run().assert_outcomes(skipped=1)
    assert list(anyhow.path.glob("artefacts/ledger/*/.*")) == []
    assert anyhow.records() == []


@pytest.mark.parametrize("value", ["0", "-1", "much"])
def test_a_bad_limit_is_one_line(project: Project, value: str) -> None:
    project.task()
    result = project.run(f"--aec-max-cost={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--aec-max-cost: " in result.stderr.str()
    assert "use a number above 0" in result.stderr.str()
