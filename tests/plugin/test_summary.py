"""The summary at the end of a run: per agent, narrow, and honest about errors."""

from __future__ import annotations

from pytest_aecbench.view.lease import Lease
from tests.plugin.conftest import in_every_mode
from tests.project import HALF, Project


def table(project: Project, *arguments: str) -> list[str]:
    """Run and return the summary's lines."""
    lines = project.run(*arguments).outlines
    start = next(i for i, line in enumerate(lines) if "= aec: exp-" in line)
    return lines[start + 1 : next(i for i, line in enumerate(lines) if "records in" in line) + 1]


def row(lines: list[str], name: str) -> list[str]:
    (found,) = [line.split() for line in lines if line.split()[:1] == [name]]
    return found


@in_every_mode
def test_a_table_per_agent_with_interval_and_pass_rates(anyhow: Project) -> None:
    anyhow.task("electrical/a")
    anyhow.task("electrical/b")
    anyhow.task("civil/c", toml='[metadata]\ndifficulty = "hard"\n')
    lines = table(anyhow, "--aec-agent=oracle", f"--aec-agent=half={HALF}", "--aec-repetitions=2")
    assert row(lines, "oracle") == [
        "oracle",
        "6",
        "0",
        "1.00",
        "0.29",
        "to",
        "1.00",
        "0.00",
        "1.00",
    ]
    assert row(lines, "half") == ["half", "6", "0", "0.35", "0.10", "to", "0.81", "0.00", "0.00"]
    text = "\n".join(lines)
    assert text.index("oracle") < text.index("half")
    assert "pass@2 1.00, pass^2 1.00 (3 tasks)" in text
    assert [line.split()[1] for line in lines if line.startswith("  civil")] == ["2", "2"]
    assert [line.split()[1] for line in lines if line.startswith("  easy")] == ["4", "4"]
    assert any(line.startswith("wall time") for line in lines)


def test_every_line_fits_80_columns_and_needs_no_colour(project: Project) -> None:
    project.task("a-domain-with-a-very-long-name-indeed-yes/a")
    project.task("civil/b")
    agent = f"a-very-long-agent-name-that-goes-on-and-on-and-on={HALF}"
    lines = table(project, f"--aec-agent={agent}", "--color=no")
    assert all(len(line) <= 80 for line in lines), lines
    assert "\x1b" not in "".join(lines)


def test_errors_are_counted_apart_and_not_as_zeros(anyhow: Project) -> None:
    anyhow.task("civil/good")
    anyhow.task("civil/broken", test_sh="exit 1")
    lines = table(anyhow)
    assert row(lines, "oracle")[:4] == ["oracle", "2", "1", "1.00"]
    assert any("errors, not scored: verifier 1" in line for line in lines)
    assert "  with errors as zeros: 0.50, scored 1 of 2 tasks" in lines


def test_holdout_tasks_run_but_stay_out_of_the_tables(anyhow: Project) -> None:
    anyhow.task("civil/public")
    anyhow.task("ground/secret", toml='[metadata]\nvisibility = "holdout"\n', solve="true")
    lines = table(anyhow)
    assert row(lines, "oracle")[:4] == ["oracle", "1", "0", "1.00"]
    assert not any("ground" in line for line in lines)
    assert any("held-out trials, not shown above: 1" in line for line in lines)
    assert len(anyhow.records()) == 2


def test_tokens_and_cost_show_when_known(anyhow: Project) -> None:
    anyhow.task()
    anyhow.pytester.makeconftest(
        """
        from pytest_aecbench import AgentResult, Usage

        class Costly:
            def run(self, task, sandbox, limits):
                return AgentResult(usage=Usage(tokens_in=1234, tokens_out=56), cost_usd=0.125)

        def pytest_aecbench_make_agent(config, spec):
            return Costly()
        """
    )
    text = "\n".join(table(anyhow))
    assert "tokens in 1,234, tokens out 56, USD 0.12" in text
    cost = anyhow.record()["cost"]
    assert (cost["tokens_in"], cost["tokens_out"], cost["usd"]) == (1234, 56, 0.125)


def test_a_failure_is_headed_by_its_task(anyhow: Project) -> None:
    anyhow.task(solve="true")
    anyhow.run().stdout.fnmatch_lines(["*_ electrical/ohms-law[[]oracle-1[]] _*"])


def test_the_header_says_which_backend_and_mode(anyhow: Project) -> None:
    anyhow.task()
    result = anyhow.run("--aec-local-mode=rewriting")
    result.stdout.fnmatch_lines(["aec: backend local (rewriting*"])


def test_the_summary_counts_how_agents_ended_that_failed(anyhow: Project) -> None:
    for name in ("civil/a", "civil/b"):
        anyhow.task(name, toml="[agent]\ntimeout_sec = 1\n")
    good = 'echo \'{"current_a": 2.0, "power_w": 24.0}\' > output.jsonl; exit 3'
    result = anyhow.run(
        "--aec-agent=crashing=command:exit 3",
        "--aec-agent=slow=command:sleep 100",
        "--aec-agent=missing=command:no-such-program",
        "--aec-agent=idle=command:true",
        f"--aec-agent=good=command:{good}",
    )
    lines = result.stdout.str()
    assert lines.count("  agents that failed: exited non-zero 2\n") == 1
    assert lines.count("  agents that failed: timed out 2\n") == 1
    assert lines.count("  agents that failed: program not found 2\n") == 1
    assert lines.count("  agents that failed: wrote no output 2\n") == 1
    assert lines.count("agents that failed") == 4  # one that passed may end as it likes


def closer(project: Project, *arguments: str) -> list[str]:
    """Run and return the lines that say where to look closer."""
    lines = project.run(*arguments).outlines
    start = next(i for i, line in enumerate(lines) if line.startswith("look closer: "))
    return [lines[start], *(line for line in lines[start + 1 :] if line.startswith("  http"))]


def test_the_summary_ends_with_where_to_look_closer(project: Project) -> None:
    project.task()
    assert closer(project, "--aec-experiment-id=mine") == ["look closer: aec-bench view mine"]


def test_a_viewer_that_runs_is_named_with_failed_trials_and_without_its_token(
    project: Project,
) -> None:
    for number in range(7):
        project.task(f"civil/t{number}")
    token = "the-token-of-the-viewer"
    lease = Lease(project.path / "artefacts/ledger", "http://127.0.0.1:8765", token).write()
    try:
        lines = closer(project, "--aec-experiment-id=mine", f"--aec-agent=half={HALF}")
    finally:
        lease.unlink()
    head, experiment, *trials = lines
    assert (head, experiment) == (
        "look closer: aec-bench view mine",
        "  http://127.0.0.1:8765/e/mine",
    )
    assert len(trials) == 5
    ids = {record["trial_id"][:8] for record in project.records()}
    assert {line.split("/t/")[1][:8] for line in trials} <= ids
    assert trials[0].endswith("[half-1]")
    assert token not in "\n".join(lines)
