"""An experiment.yaml: every key takes effect, and the run keeps one that repeats it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.plugin.test_configuration import refused
from tests.project import Project

PRINT = "command: 'echo $AGENT_MODEL/$AGENT_MAX_TURNS/$AGENT_SYSTEM_PROMPT > output.jsonl'"

# Notes the limits and options that it is given.
WATCHED = """
import json, pathlib
from pytest_aecbench.backends.local import LocalBackend

class Watched(LocalBackend):
    @classmethod
    def from_settings(cls, settings):
        made = super().from_settings(settings)
        made.options = dict(settings.backend_options)
        return made

    def launch_trial(self, *, image_ref, workspace_dir, limits):
        seen = {"cpus": limits.cpus, "memory_mb": limits.memory_mb, "options": self.options}
        pathlib.Path(__file__).with_name("seen.json").write_text(json.dumps(seen))
        return super().launch_trial(image_ref=image_ref, workspace_dir=workspace_dir, limits=limits)
"""


def write(project: Project, text: str) -> str:
    (project.path / "x.yaml").write_text(text)
    return "--aec-experiment=x.yaml"


def test_tasks_that_are_not_selected_are_deselected(anyhow: Project) -> None:
    anyhow.task("electrical/easy")
    anyhow.task("electrical/hard", toml='[metadata]\ndifficulty = "hard"\n')
    anyhow.task("electrical/old", toml='[metadata]\ndifficulty = "easy"\nlifecycle = "retired"\n')
    anyhow.task("electrical/other", toml='[metadata]\ndifficulty = "easy"\ndomain = "civil"\n')
    anyhow.task("electrical/excluded")
    anyhow.task("water/easy")
    experiment = write(
        anyhow,
        "tasks:\n  include_patterns: ['electrical/*']\n  exclude_patterns: ['*/excl*']\n"
        "  domains: [electrical]\n  difficulties: [easy]\n  lifecycle: active\n",
    )
    result = anyhow.run(experiment)
    result.assert_outcomes(passed=1, deselected=0 if "-n2" in anyhow.mode else 5)
    assert anyhow.record()["task"]["task_id"] == "electrical/easy"


def test_an_experiment_that_selects_nothing_is_refused(anyhow: Project) -> None:
    anyhow.task("electrical/easy")
    anyhow.task("civil/easy")
    line = refused(anyhow.run(write(anyhow, "tasks: {domains: [elektrical]}\n")))
    assert line == "x.yaml: tasks: 2 tasks found, but none is selected; select some of them"


def test_an_experiment_without_tasks_is_refused(project: Project) -> None:
    (project.path / "test_it.py").write_text("def test_it(): pass\n")
    experiment = write(project, "repetitions: 2\n")
    line = refused(project.pytester.runpytest(experiment, "test_it.py"))
    assert line == "x.yaml: no tasks are found; name their directory, as in: pytest tasks"


def test_agents_get_their_model_parameters_and_prompt(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_OF_CHOICE", "gpt-x")
    anyhow.task()
    (anyhow.path / "prompt.md").write_text("Be brief.")
    experiment = write(
        anyhow,
        "experiment_id: e-1\nrepetitions: 2\nagents:\n- name: mine\n  adapter: command\n"
        "  model: $MODEL_OF_CHOICE\n  system_prompt_file: prompt.md\n"
        f"  parameters:\n    max_turns: 3\n    {PRINT}\n",
    )
    anyhow.run(experiment).assert_outcomes(failed=2)
    first = anyhow.records()
    assert [r["outputs"]["output_excerpt"] for r in first] == ["gpt-x/3/Be brief.\n"] * 2
    assert {(r["agent"]["name"], r["agent"]["model"], r["repetition"]) for r in first} == {
        ("mine", "gpt-x", 1),
        ("mine", "gpt-x", 2),
    }
    (anyhow.path / "prompt.md").write_text("Be thorough.")
    anyhow.run(experiment, "--aec-experiment-id=e-2")
    prompts = {r["agent"]["system_prompt_sha256"] for r in anyhow.records()}
    assert len(prompts) == 2
    assert len({r["trial_key"] for r in anyhow.records()}) == 4


def test_resource_limits_and_backend_options_reach_the_trials(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE_TO", "the-moon")
    anyhow.task(toml="[agent]\ntimeout_sec = 10\n[environment]\ncpus = 1\nmemory_mb = 64\n")
    (anyhow.path / "watched.py").write_text(WATCHED)
    (anyhow.path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    experiment = write(
        anyhow,
        "compute:\n  backend: watched.Watched\n"
        "  watched.Watched: {place: $WHERE_TO, price: $$5, deep: {list: ['${NOT_SET:-x}', 1]}}\n"
        "  resource_limits: {timeout_override: 77, memory_mb: 512, cpus: 1.5}\n",
    )
    anyhow.run(experiment).assert_outcomes(passed=1)
    assert json.loads((anyhow.path / "seen.json").read_text()) == {
        "cpus": 1.5,
        "memory_mb": 512,
        "options": {"place": "the-moon", "price": "$5", "deep": {"list": ["x", 1]}},
    }
    assert anyhow.record()["inputs"]["agent_timeout_sec"] == 77


def test_a_timeout_override_stops_the_agent(project: Project) -> None:
    project.task(solve="sleep 600")
    project.run(write(project, "compute: {resource_limits: {timeout_override: 1}}\n"))
    assert project.record()["agent_result"]["status"] == "timed_out"


def test_disabled_verification_scores_nothing(anyhow: Project) -> None:
    anyhow.task()
    anyhow.run(write(anyhow, "disable_verification: true\n"))
    assert anyhow.record()["evaluation"]["validity"] == "unverified"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "agents: [{harness: oracle, name: a}, {harness: nop, name: a}]",
            "x.yaml: agents: two agents are named 'a'; give each its own name",
        ),
        (
            "agents: [{harness: orcle}]",
            "x.yaml: agents: 'orcle' is not known; did you mean 'oracle'",
        ),
        ("agents: [{harness: command}]", "x.yaml: agents.0.parameters.command: missing; write a"),
        (
            "agents: [{harness: nop, model: $NOT_SET}]",
            "x.yaml: agents.0.model: variable 'NOT_SET' is not set; set it or write ${NOT_SET:-de",
        ),
        (
            "agents: [{harness: nop, client: {kind: x, settings: {key: $NOT_SET}}}]",
            "x.yaml: agents.0.client.settings.key: variable 'NOT_SET' is not set; ",
        ),
        (
            "tasks: {dataset: none-such@1.0.0}",
            "x.yaml: tasks.dataset: dataset 'none-such",
        ),
        ("compute: {local: {a: 1}}", "x.yaml: compute.local: the local backend has no options;"),
        (
            "compute: {lcal: {a: 1}}",
            "x.yaml: compute.lcal: unknown key; use one of 'backend', '",
        ),
        (
            "compute: {resource_limit: {cpus: 1}}",
            "x.yaml: compute.resource_limit: unknown key; did you mean 'resource_limits'?",
        ),
        ("compute: {backend: modl}", "x.yaml: compute.backend: 'modl' is not known; "),
        ("a: &a [1]\nb: *a\n", "x.yaml: line 2: '*a' is an alias; write the value out"),
        ("\x07", "x.yaml: "),
    ],
)
def test_a_bad_experiment_is_refused_in_one_line(project: Project, text: str, line: str) -> None:
    project.task()
    assert refused(project.run(write(project, text))).startswith(line)
    assert project.records() == []


def test_a_missing_experiment_is_refused_in_one_line(project: Project) -> None:
    project.task()
    assert refused(project.run("--aec-experiment=no.yaml")).startswith("no.yaml: no such file or")


def test_a_run_can_be_repeated_from_what_it_kept(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_OF_CHOICE", "gpt-$x")
    monkeypatch.setenv("SOME_API_KEY", "hunter2-hunter2")
    anyhow.task("electrical/one")
    anyhow.task("civil/two")
    (anyhow.path / "prompt.md").write_text("# Role\n\nBe *brief*: 1e5 words,\n  or 'less'.\n")
    (anyhow.path / "watched.py").write_text(WATCHED)
    (anyhow.path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    experiment = write(
        anyhow,
        "name: mine\ntasks: {domains: [electrical]}\nagents:\n- harness: command\n"
        "  model: $MODEL_OF_CHOICE\n  system_prompt_file: prompt.md\n"
        "  client: {kind: other, settings: {key: $SOME_API_KEY}}\n"
        f"  parameters:\n    {PRINT}\n- harness: oracle\n"
        "compute:\n  backend: watched.Watched\n"
        "  watched.Watched: {model: $MODEL_OF_CHOICE, key: 'Bearer $SOME_API_KEY'}\n"
        "  resource_limits: {memory_mb: 512, n_concurrent_trials: 3}\n",
    )
    anyhow.run(experiment, "--aec-repetitions=2", "--aec-experiment-id=first")
    kept = anyhow.path / "artefacts/ledger/first/experiment.yaml"
    assert "hunter2" not in kept.read_text()
    assert kept.read_text().startswith("# ran as: pytest ")
    saved = yaml.safe_load(kept.read_text())
    assert saved["compute"]["watched.Watched"] == {
        "model": "gpt-$$x",
        "key": "Bearer $SOME_API_KEY",
    }
    seen = (anyhow.path / "seen.json").read_text()

    for name in ("x.yaml", "prompt.md"):
        (anyhow.path / name).unlink()
    monkeypatch.setenv("MODEL_OF_CHOICE", "something-else")
    anyhow.run(f"--aec-experiment={kept}", "--aec-experiment-id=second")
    records = {name: _keys(anyhow.path, name) for name in ("first", "second")}
    assert len(records["first"]) == 4
    assert records["first"] == records["second"]
    assert (anyhow.path / "seen.json").read_text() == seen
    again = yaml.safe_load((kept.parent.parent / "second/experiment.yaml").read_text())
    assert again == {**saved, "experiment_id": "second"}


def test_a_variable_of_an_experiment_is_secret_under_any_name_but_not_as_a_model(
    anyhow: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOSEN", "some-model-20260412")
    monkeypatch.setenv("SEAT", "hunter2-hunter2")
    monkeypatch.setenv("PASSED_ON", "swordfish-4711")
    anyhow.task()
    (anyhow.path / "watched.py").write_text(WATCHED)
    (anyhow.path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    experiment = write(
        anyhow,
        "agents:\n- harness: command\n  model: $CHOSEN\n"
        "  parameters:\n    env: [PASSED_ON]\n"
        "    command: echo swordfish-4711 hunter2-hunter2 some-model-20260412 > said.txt\n"
        "compute:\n  backend: watched.Watched\n"
        "  watched.Watched: {seat: 'number $SEAT', model: $CHOSEN}\n",
    )
    anyhow.run(experiment)
    (said,) = anyhow.path.glob("jobs/*/*/workspace/said.txt")
    assert said.read_text() == "<PASSED_ON> <SEAT> some-model-20260412\n"
    assert anyhow.record()["agent"]["model"] == "some-model-20260412"
    (kept,) = anyhow.path.glob("artefacts/ledger/*/experiment.yaml")
    options = yaml.safe_load(kept.read_text())["compute"]["watched.Watched"]
    assert options == {"seat": "number $SEAT", "model": "some-model-20260412"}


def _keys(project: Path, experiment_id: str) -> dict[str, object]:
    paths = (project / "artefacts/ledger" / experiment_id).glob("*.json")
    found = [json.loads(path.read_text()) for path in paths]
    return {
        record["trial_key"]: (record["evaluation"]["reward"], record["outputs"]["output_excerpt"])
        for record in found
    }


def test_a_run_that_differs_keeps_its_experiment_beside_the_first(project: Project) -> None:
    project.task()
    for arguments in (["--aec-experiment-id=e"], ["--aec-resume=e"]):
        project.run(*arguments)
    directory = project.path / "artefacts/ledger/e"
    assert [path.name for path in sorted(directory.glob("*.yaml"))] == ["experiment.yaml"]
    first = (directory / "experiment.yaml").read_bytes()
    project.run("--aec-resume=e", "--aec-repetitions=2")
    assert [path.name for path in sorted(directory.glob("*.yaml"))] == [
        "experiment-2.yaml",
        "experiment.yaml",
    ]
    assert (directory / "experiment.yaml").read_bytes() == first


def test_an_experiment_with_an_id_is_resumed_by_it(project: Project) -> None:
    project.task()
    experiment = write(project, "experiment_id: nightly\n")
    project.run(experiment)
    project.run("--aec-experiment-id=later")
    result = project.run(experiment, "--aec-resume")
    result.assert_outcomes(passed=1)
    assert "aec: resuming: 1 trial settled already" in result.stdout.str()
