"""``aec-bench generate`` and what follows from it, as its users call it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_aecbench
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.config import load_suite
from pytest_aecbench.suites.generation import Made, generate_tasks
from pytest_aecbench.suites.scaffold import new_template
from pytest_aecbench.suites.suite import GENERATION_FILE, check_suite, plan_suite, write_suite
from pytest_aecbench.tasks.digest import directory_digest
from pytest_aecbench.tasks.task import Task, find_tasks
from tests.cli.conftest import Run
from tests.pages import blocks
from tests.screen import Terminal
from tests.stopping import wait_until
from tests.templating import SHIPPED, cells

SUITE = """\
name = "pilot"
seed = 3
split = { train = 0.6, val = 0.2, test = 0.2 }
holdout = ["test"]

[coverage]
difficulties = { easy = 0.4, medium = 0.3, hard = 0.3 }

[templates]
include = ["electrical/feeder-*", "water/*"]

[visibility]
mix = { all_given = 0.8, partial = 0.2 }

[instances]
per_task = 4
total_max = 10

[output]
dir = "tasks/generated/pilot"
"""
MANY = SUITE.replace("per_task = 4", "per_task = 200").replace("total_max = 10", "total_max = 600")
ROOT = Path("tasks/generated/pilot")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a suite, which is the working directory."""
    (tmp_path / "aec-bench.toml").write_text('[project]\nname = "demo"\n')
    (tmp_path / "suite.toml").write_text(SUITE)
    (tmp_path / "tasks").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def generate(directory: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_aecbench", "generate", *arguments],
        cwd=directory,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
    )


def test_a_suite_is_written_once_and_stays(project: Path, aec_bench: Run) -> None:
    first = aec_bench("generate", "suite", "--config", "suite.toml")
    assert first.code == 0, first.err
    assert "wrote 10 tasks in tasks/generated/pilot" in first.out
    before = directory_digest(project / ROOT)
    again = aec_bench("generate", "suite", "--config", "suite.toml")
    assert "unchanged 10 tasks" in again.out
    assert directory_digest(project / ROOT) == before
    assert [path.name for path in (project / "tasks/generated").iterdir()] == ["pilot"]


def test_a_dry_run_tells_everything_and_writes_nothing(project: Path, aec_bench: Run) -> None:
    told = aec_bench("generate", "suite", "--config", "suite.toml", "--dry-run", "--json").json()
    assert not ROOT.exists()
    assert told["by_difficulty"] == {"easy": 4, "medium": 3, "hard": 3}
    assert told["by_visibility"] == {"all_given": 8, "partial": 2}
    assert told["by_split"] == {"train": 6, "val": 2, "test": 2}
    assert sum(told["by_template"].values()) == told["total_instances"] == 10
    assert set(told["by_discipline"]) == {"electrical", "water"}
    real = aec_bench("generate", "suite", "--config", "suite.toml", "--json").json()
    assert {one["name"] for one in real["instances"]} == {
        task_id for task_id, _ in find_tasks(ROOT)
    }
    same = [key for key in told if key != "dry_run"]
    assert {key: real[key] for key in same} == {key: told[key] for key in same}
    assert (real["instances_generated"], Path(real["manifest_path"]).name) == (10, GENERATION_FILE)


def test_generated_tasks_are_tasks_without_a_warning(project: Path, aec_bench: Run) -> None:
    aec_bench("generate", "suite", "--config", "suite.toml")
    for task_id, path in find_tasks(ROOT):
        task = Task.load(path, task_id=task_id)
        assert task.warnings == ()
        assert task.domain == task_id.partition("/")[0]
        assert task.visibility == ("holdout" if "test" in task.tags else "public")
        assert str(task.output_path) == "/workspace/output.jsonl"
        assert task.config.verifier.environment_mode == "separate"
        assert not task.config.environment.allow_internet


def test_check_names_what_differs(project: Path, aec_bench: Run) -> None:
    arguments = ("generate", "suite", "--config", "suite.toml", "--check")
    assert aec_bench(*arguments).code == 1
    aec_bench(*arguments[:-1])
    assert aec_bench(*arguments).out == f"{ROOT}: 10 unchanged\n"
    (changed, path), (gone, other), *_ = find_tasks(ROOT)
    with (path / "instruction.md").open("a") as file:
        file.write("more")
    shutil.rmtree(other)
    ended = aec_bench(*arguments)
    assert ended.code == 1
    assert ended.out.splitlines() == [
        f"{changed}: changed",
        f"{gone}: missing",
        f"{ROOT}: 2 differ",
    ]
    refused = aec_bench(*arguments[:-1])
    assert refused.code == 2
    assert "exists and differs" in refused.err
    assert not (other).exists()


def test_a_file_beside_the_tasks_is_not_part_of_a_suite(project: Path, aec_bench: Run) -> None:
    arguments = ("generate", "suite", "--config", "suite.toml")
    aec_bench(*arguments)
    (ROOT / "water/conftest.py").write_text("")
    (ROOT / "linked").symlink_to(project)
    (ROOT / "water/__pycache__").mkdir()
    ended = aec_bench(*arguments, "--check")
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "linked: not part of the suite",
        "water/conftest.py: not part of the suite",
        f"{ROOT}: 2 differ",
    ]
    assert (
        "exists and differs (linked: not part of the suite and 1 more)" in aec_bench(*arguments).err
    )


def test_the_documented_suite_has_its_mixes_with_109_templates(
    project: Path, aec_bench: Run
) -> None:
    shipped = Path(pytest_aecbench.__file__).with_name("templates")
    for discipline, count in (("civil", 92), ("electrical", 17)):
        for number in range(count - len([*(shipped / discipline).iterdir()])):
            new_template(f"{discipline}/t{number:03}", project / "templates")
    (project / "suite.toml").write_text(blocks("suites.md", "toml")[0])
    told = aec_bench("generate", "suite", "--config", "suite.toml", "--dry-run", "--json").json()
    assert (len(told["by_template"]), told["total_instances"]) == (109, 200)
    assert told["by_difficulty"] == {"easy": 67, "medium": 66, "hard": 67}
    assert told["by_visibility"] == {"all_given": 156, "partial": 44}
    (warning,) = told["warnings"]
    assert warning.startswith("tool_mode.mix: 200 tasks had to be no-tool, because templates leave")


def test_a_suite_of_another_seed_has_other_tasks(project: Path, aec_bench: Run) -> None:
    names = [
        {one["name"] for one in told["instances"]}
        for told in (
            aec_bench(
                "generate", "suite", "--config", "suite.toml", "--dry-run", "--json", *seed
            ).json()
            for seed in ((), ("--seed", "4"))
        )
    ]
    assert names[0].isdisjoint(names[1])


def test_a_file_can_be_validated_alone(project: Path, aec_bench: Run) -> None:
    told = aec_bench(
        "generate", "suite", "--config", "suite.toml", "--validate-only", "--json"
    ).json()
    shipped = Path(pytest_aecbench.__file__).with_name("templates")
    matched = [*shipped.glob("electrical/feeder-*"), *shipped.glob("water/*/")]
    assert (told["valid"], told["matched_templates"]) == (True, len(matched))
    (project / "suite.toml").write_text(
        SUITE.replace("water/*", "wather/*").replace("electrical", "x")
    )
    ended = aec_bench("generate", "suite", "--config", "suite.toml", "--validate-only")
    assert ended.code == 2
    assert "templates.include: 'x/feeder-*', 'wather/*' matches none of" in ended.err


def test_a_suite_can_be_frozen_with_its_origin(project: Path, aec_bench: Run) -> None:
    aec_bench("generate", "suite", "--config", "suite.toml")
    create = ("dataset", "create", "pilot", "--version", "1.0.0", "--from-suite", str(ROOT))
    manifest = aec_bench(*create, "--holdout", "--json").json()
    assert manifest["description"]["task_count"] == 10
    source = manifest["source"]
    assert (source["method"], source["seed"]) == ("suite_config", 3)
    assert source["template_versions"]["water/part-full-sewer"] == "1.0.0"
    assert source["suite_config"]["instances"]["per_task"] == 4
    (_, path), *_ = find_tasks(ROOT)
    (path / "instruction.md").write_text("other")
    create = ("dataset", "create", "pilot", "--version", "1.1.0", "--from-suite", str(ROOT))
    ended = aec_bench(*create)
    assert ended.code == 2
    assert "is not as it was generated" in ended.err
    assert "leave out the selection" in aec_bench(*create, "--domain", "water").err
    aec_bench("generate", "suite", "--config", "suite.toml", "--output", "tasks/other")
    other = aec_bench(*create[:-1], "tasks/other", "--checked")
    assert (other.code, len(other.err.splitlines())) == (2, 1)
    assert "was not checked in this state" in other.err
    assert "has no generation.json" in aec_bench(*create[:-1], "tasks").err
    record = Path("tasks/other/generation.json")
    data = json.loads(record.read_text())
    name = next(iter(data["tasks"]))
    data["tasks"] = {f"../other/{name}": data["tasks"][name]}  # the same task, by a way round
    record.write_text(json.dumps(data))
    outside = aec_bench(*create[:-1], "tasks/other")
    assert "is not as it was generated" in outside.err


def test_the_same_bytes_come_from_any_surroundings(project: Path, tmp_path: Path) -> None:
    digests = set()
    for number, env in enumerate(
        (
            {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
            {"PYTHONHASHSEED": "7", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"},
        )
    ):
        below = project / f"deep-{number}"
        below.mkdir()
        before = os.umask(0o077 if number else 0o022)
        try:
            done = generate(
                below, "suite", "--config", "../suite.toml", "--output", f"{below}/out", **env
            )
        finally:
            os.umask(before)
        assert done.returncode == 0, done.stderr
        digests.add(directory_digest(below / "out"))
    assert len(digests) == 1


@pytest.mark.parametrize(
    "arguments",
    [("suite", "--config", "suite.toml"), ("task", "part-full-sewer", "--instances=900")],
)
def test_a_long_run_shows_its_progress_and_can_be_interrupted(
    project: Path, arguments: tuple[str, ...]
) -> None:
    (project / "suite.toml").write_text(MANY)
    before = sorted(path.name for path in project.iterdir())
    argv = [sys.executable, "-m", "pytest_aecbench", "generate", *arguments]
    terminal = Terminal([*argv, "--output=out/new"], cwd=project, columns=100)
    try:
        terminal.wait_for(lambda lines: re.search(r"generating .* [1-9]\d?%", "\n".join(lines)))
        terminal.type("\x03")
    finally:
        code = terminal.end()
    assert code == 130
    assert "Traceback" not in "\n".join(terminal.scrolled)
    assert sorted(path.name for path in project.iterdir()) == sorted([*before, "out"])
    assert not [path for path in (project / "out").rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.nightly
def test_a_killed_run_leaves_no_part_of_a_suite(project: Path) -> None:
    (project / "suite.toml").write_text(MANY)
    argv = [sys.executable, "-m", "pytest_aecbench", "generate", "suite", "--config", "suite.toml"]
    running = subprocess.Popen(argv, cwd=project, stdout=subprocess.DEVNULL)
    staged = project / "tasks/generated"
    wait_until(lambda: [*staged.glob(".aec-generate-*/suite/*/*/*/task.toml")], "the first task")
    assert running.poll() is None, "ended before it could be killed"
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert not (project / ROOT).exists()
    assert not list(find_tasks(project / "tasks"))
    done = generate(project, "suite", "--config", "suite.toml")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in staged.iterdir()] == ["pilot"]
    assert generate(project, "suite", "--config", "suite.toml", "--check").returncode == 0


def test_a_full_disk_leaves_nothing(project: Path) -> None:
    # The kernel writes as much of a file as the limit allows, and says so only by the count.
    arguments = "generate task part-full-sewer --instances 3 --output out"
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 2; exec {sys.executable} -m pytest_aecbench {arguments}"],
        cwd=project,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stdout
    assert (
        done.stderr == "aec-bench: out: cannot be written, File too large; use another directory\n"
    )
    assert not [*Path("out").iterdir()]


@pytest.mark.parametrize("seed", [3, 4])
def test_a_suite_that_another_process_writes_meanwhile_is_compared(
    project: Path, seed: int
) -> None:
    config = load_suite(project / "suite.toml")
    templates = [SHIPPED["water/part-full-sewer"]]
    plan = plan_suite(config, templates)
    other = plan_suite(config.model_copy(update={"seed": seed}), templates)
    written: list[Path] = []

    def meanwhile() -> None:
        if not written:
            written.append(ROOT)
            assert write_suite(other, ROOT).is_new

    if seed == config.seed:
        assert not write_suite(plan, ROOT, progress=meanwhile).is_new
    else:
        with pytest.raises(SettingsError, match="exists and differs"):
            write_suite(plan, ROOT, progress=meanwhile)
    assert check_suite(other, ROOT) == []
    assert [path.name for path in ROOT.parent.iterdir()] == ["pilot"]


def test_tasks_that_another_process_writes_meanwhile_stay(project: Path) -> None:
    template = SHIPPED["water/part-full-sewer"]
    asked = (template, cells(template), 3, 1, 0, project / "tasks")
    earlier: list[Made] = []

    def meanwhile() -> None:
        if not earlier:
            earlier.extend([*generate_tasks(*asked)])

    later = generate_tasks(*asked, progress=meanwhile)
    assert [one.is_new for one in later] == [False, False, False]
    assert {one.digest for one in later} == {one.digest for one in earlier}
    assert [path.name for path in (project / "tasks").iterdir()] == ["water"]


def test_tasks_of_one_template_take_turns_in_difficulty(project: Path, aec_bench: Run) -> None:
    arguments = ("generate", "task", "part-full-sewer", "--instances", "5")
    told = aec_bench(*arguments, "--dry-run", "--json").json()
    assert [one["difficulty"] for one in told["instances"]] == [
        "easy", "medium", "hard", "easy", "medium"
    ]  # fmt: skip
    assert not list(find_tasks(Path("tasks")))
    assert aec_bench(*arguments).out.count("wrote ") == 5
    assert aec_bench(*arguments).out.count("unchanged ") == 5
    (_, path), *_ = find_tasks(Path("tasks"))
    (path / "tests/verify.py").write_text("")
    ended = aec_bench(*arguments)
    assert ended.code == 2
    assert "exists and differs from what would be generated; move it away" in ended.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "NAME: one of NAME and --template is needed; give exactly one"),
        (("x", "--template", "y"), "NAME: one of NAME and --template is needed"),
        (
            ("part-ful-sewer",),
            "'part-ful-sewer' is not a template; did you mean 'part-full-sewer'?",
        ),
        (("part-full-sewer", "--difficulty", "trivial"), "use one of 'easy', 'medium', 'hard'"),
        (("part-full-sewer", "--tool-mode", "with-tool"), "--tool-mode: 'with-tool' is not valid"),
        (
            ("part-full-sewer", "--output", "suite.toml"),
            "suite.toml: cannot be written, File exists",
        ),
        (("part-full-sewer", "--output", "/proc/none"), "/proc/none: cannot be written, "),
    ],
)
def test_a_mistake_is_one_line(
    project: Path, aec_bench: Run, arguments: tuple[str, ...], problem: str
) -> None:
    ended = aec_bench("generate", "task", *arguments)
    assert ended.code == 2
    assert problem in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("suite", "--output", "suite.toml"), "suite.toml: cannot be read, Not a directory; use"),
        (("suite", "--check", "--dry-run"), "--check: exclude one another; use one"),
        (("suite", "--config", "lost.toml"), "templates.user_dirs: lost is not a directory"),
        (("list-templates", "--user-dir", "lost"), "--user-dir: lost is not a directory; correct"),
        (("list-templates", "--discipline", "watr"), "--discipline: 'watr' is not valid; use one"),
    ],
)
def test_a_mistake_in_another_command_is_one_line(
    project: Path, aec_bench: Run, arguments: tuple[str, ...], problem: str
) -> None:
    (project / "lost.toml").write_text(
        SUITE.replace("[templates]", '[templates]\nuser_dirs = ["lost"]')
    )
    config = (
        () if "--config" in arguments or arguments[0] != "suite" else ("--config", "suite.toml")
    )
    ended = aec_bench("generate", *arguments, *config)
    assert ended.code == 2
    assert problem in ended.err
    assert len(ended.err.splitlines()) == 1


def test_templates_are_listed_with_those_of_the_project(project: Path, aec_bench: Run) -> None:
    aec_bench("generate", "new-template", "water/my-weir")
    told = aec_bench("generate", "list-templates", "--discipline", "water", "--json").json()
    assert {"my-weir", "part-full-sewer"} <= {one["name"] for one in told}
    assert {one["discipline"] for one in told} == {"water"}
    assert "part-full-sewer" in aec_bench("generate", "list-templates").out


def test_a_new_template_is_valid_right_away(project: Path, aec_bench: Run) -> None:
    assert aec_bench("generate", "new-template", "civil/my-weir").code == 0
    ended = aec_bench("generate", "validate-template", "templates/civil/my-weir")
    assert ended.code == 0, ended.out
    assert "civil/my-weir: no problems" in ended.out
    assert "exists; use another name" in aec_bench("generate", "new-template", "civil/my-weir").err
    assert "is not valid; use small letters" in aec_bench("generate", "new-template", "Weir").err


def test_a_wrong_template_fails_validation(project: Path, aec_bench: Run) -> None:
    aec_bench("generate", "new-template", "civil/my-weir")
    path = Path("templates/civil/my-weir/params.toml")
    path.write_text(path.read_text().replace("rel = 0.01", "rel = 3.0"))
    ended = aec_bench("generate", "validate-template", str(path.parent), "--json")
    assert ended.code == 1
    assert ended.json()["valid"] is False
    assert all("rel: 3.0 is not valid" in line for line in ended.json()["errors"])


def test_a_wrong_template_does_not_hide_the_others(project: Path, aec_bench: Run) -> None:
    aec_bench("generate", "new-template", "civil/my-weir")
    Path("templates/civil/my-weir/engine.py").write_text("import os\n")
    listed = aec_bench("generate", "list-templates")
    assert "part-full-sewer" in listed.out
    assert "my-weir" not in listed.out
    assert "engine.py: line 1: imports 'os'; use nothing but math" in listed.err
    ended = aec_bench("generate", "suite", "--config", "suite.toml")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert not ROOT.exists()


def test_a_preview_shows_prompt_answer_and_files(project: Path, aec_bench: Run) -> None:
    arguments = ("generate", "preview", "part-full-sewer", "--difficulty", "hard", "--seed", "3")
    shown = aec_bench(*arguments).out
    assert "| inside diameter, D |" in shown
    assert "---- /workspace/pipe_materials.csv" in shown
    assert "tests/engine.py" in shown
    told = aec_bench(*arguments, "--json").json()
    assert set(told["answer"]) == {"relative_depth", "velocity_m_s", "self_cleansing"}
    assert not list(find_tasks(Path("tasks")))


@pytest.mark.slow
def test_trials_of_generated_tasks_are_selected_like_others(project: Path, aec_bench: Run) -> None:
    aec_bench("generate", "suite", "--config", "suite.toml")
    (project / "pytest.ini").write_text("[pytest]\n")
    argv = [sys.executable, "-m", "pytest", "-q", str(ROOT), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*argv, "-m", "hard and partial", "-k", "sewer or feeder or storm", "--aec-agent=oracle",
         "--aec-agent=nop", "--aec-experiment-id=one"],
        cwd=project, capture_output=True, text=True,
    )  # fmt: skip
    assert "2 failed, 2 passed" in done.stdout, done.stdout
    told = aec_bench("report", "difficulty", "--experiment", "one", "--json").json()
    assert {one["verdict"] for one in told} == {"too few tasks"}
    assert all(one["means"] == {"hard": 0.5} for one in told)


@pytest.mark.slow
def test_the_commands_of_the_page_on_suites_work(tmp_path: Path) -> None:
    (tmp_path / "aec-bench.toml").write_text('[project]\nname = "demo"\n')
    (tmp_path / "suite.toml").write_text(blocks("suites.md", "toml")[0])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euxc", "".join(blocks("suites.md", "bash"))],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": path, "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads(
        (tmp_path / "artefacts/datasets/my-suite/1.0.0/manifest.json").read_text()
    )
    assert manifest["source"]["seed"] == 20260524


@pytest.mark.slow
def test_the_commands_of_the_page_on_templates_work(tmp_path: Path) -> None:
    (tmp_path / "aec-bench.toml").write_text('[project]\nname = "demo"\n')
    commands = [line[2:] for line in blocks("templates.md", "console")[0].splitlines()]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euxc", "\n".join(commands)],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": path, "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_engine_of_the_page_on_templates_is_one() -> None:
    from pytest_aecbench.suites.engine import load_engine

    (source,) = blocks("templates.md", "python")
    engine = load_engine(source, "engine.py")
    assert engine.call("compute", {"voltage_v": 12.0, "resistance_ohm": 4.0}) == {"current_a": 3.0}
