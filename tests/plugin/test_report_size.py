"""What a worker tells the controller stays small, however much a trial printed."""

from __future__ import annotations

import pytest

from tests.project import Project

# Notes the size of each report as it is sent from the worker.
MEASURE = """
    import json

    import pytest
    from pytest_aecbench import AgentResult, ProviderError

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(config, report):
        data = yield
        if hasattr(config, "workerinput") and isinstance(report, pytest.TestReport):
            with (config.rootpath / "sizes.txt").open("a") as file:
                file.write(f"{len(json.dumps(data))}\\n")
        return data

    class Talker:
        def __init__(self, spec):
            self.fails = spec.model == "fails"

        def run(self, task, sandbox, limits):
            for _ in range(50):
                print("said on the host " * 60_000)
            result = sandbox.execute("yes said in the sandbox | head -c 52428800")
            if self.fails:
                raise ProviderError("no answer: " + "x" * 50_000_000)
            return AgentResult.from_execution(result)

    def pytest_aecbench_make_agent(config, spec):
        return Talker(spec) if spec.harness == "talker" else None
    """
VERIFY = """
    yes judged | head -c 52428800
    python3 - <<'END'
    import json
    details = {f"detail {i} {'y' * 300 if i % 2 else ''}": 1 for i in range(2_000)}
    with open("/logs/verifier/reward.json", "w") as file:
        json.dump({"reward": 1, **details}, file)
    END
    """


@pytest.mark.parametrize("agent", ["talker", "talker:fails"])
def test_reports_are_small_whatever_was_printed(project: Project, agent: str) -> None:
    project.task(test_sh=VERIFY)
    project.pytester.makeconftest(MEASURE)
    result = project.run("-n1", f"--aec-agent={agent}")
    outcome = {"errors": 1} if agent.endswith("fails") else {"passed": 1}
    result.assert_outcomes(**outcome)
    sizes = [int(line) for line in (project.path / "sizes.txt").read_text().split()]
    assert len(sizes) == (2 if "errors" in outcome else 3)
    assert max(sizes) < 150_000
    if "errors" in outcome:
        assert "characters left out" in result.stdout.str()
