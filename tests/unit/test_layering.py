"""Task environments with an agent on top: what the builders of images are given."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
import yaml

from pytest_aecbench.backends.remote.environment import Environment
from pytest_aecbench.backends.shared.environment import read_environment
from pytest_aecbench.errors import BuildError
from pytest_aecbench.tasks.dockerfile import read_dockerfile, read_instructions
from pytest_aecbench.tasks.layering import write_layered
from pytest_aecbench.tasks.task import Task

SCRIPT = "echo '$HOME' \"`date`\" > /agent\n"


def make_task(path: Path, toml: str = "", **files: str) -> Task:
    contents = {
        "task.toml": toml,
        "instruction.md": "Do it.",
        "tests/test.sh": "true",
        **{f"environment/{name}": text for name, text in files.items()},
    }
    for name, text in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return Task.load(path)


def layered(task: Task, user: str | None = None) -> Path:
    directory = task.path.parent / "layered"
    write_layered(task, directory, SCRIPT, user)
    return directory


def script_in(dockerfile: Path) -> str:
    (encoded,) = re.findall(r"^RUN echo (\S+) \| base64 -d", dockerfile.read_text(), re.MULTILINE)
    return base64.b64decode(encoded).decode()


def test_the_dockerfile_is_the_task_s_own_continued(tmp_path: Path) -> None:
    own = "FROM python:3.11-slim\nWORKDIR /app\nENV A=1\nCOPY given.txt ./\nCMD run"
    task = make_task(tmp_path / "task", **{"Dockerfile": own, "given.txt": "x"})
    digest = task.digest
    made = layered(task)
    text = (made / "environment/Dockerfile").read_text()
    assert text.startswith(own + "\n")
    assert script_in(made / "environment/Dockerfile") == SCRIPT
    found = read_dockerfile(made / "environment/Dockerfile")
    assert (str(found.workdir), found.user, found.env) == ("/app", "root", {"A": "1"})
    assert task.digest == digest


@pytest.mark.parametrize(
    ("own", "user"),
    [
        ("FROM x\nUSER app:staff\n", "app:staff"),
        ("FROM x\nARG WHO=app\nUSER $WHO\n", "app"),
        ("FROM x AS one\nUSER first\nFROM one\nRUN true\n", "first"),
        ("FROM x AS one\nUSER first\nFROM y\nUSER last\nRUN true\n", "last"),
    ],
)
def test_the_user_of_the_last_stage_is_restored(tmp_path: Path, own: str, user: str) -> None:
    made = layered(make_task(tmp_path / "task", Dockerfile=own))
    assert (made / "environment/Dockerfile").read_text().endswith(f"\nUSER {user}\n")


@pytest.mark.parametrize(("user", "end"), [("node", "\nUSER node\n"), ("", "install.sh\n")])
def test_a_user_that_the_base_image_has_is_restored(tmp_path: Path, user: str, end: str) -> None:
    made = layered(make_task(tmp_path / "task", Dockerfile="FROM node-image\n"), user)
    assert (made / "environment/Dockerfile").read_text().endswith(end)


@pytest.mark.parametrize("end", ["", "\n", " \\\n", "\n\n# the end \\"])
def test_the_end_of_the_task_s_file_does_not_swallow_ours(tmp_path: Path, end: str) -> None:
    made = layered(make_task(tmp_path / "task", Dockerfile=f"FROM x\nRUN true{end}"))
    instructions = read_instructions(made / "environment/Dockerfile")
    assert [keyword for _, keyword, _ in instructions] == ["FROM", "RUN", "USER", "RUN"]


def test_no_file_is_added_to_the_build_context(tmp_path: Path) -> None:
    files = {"Dockerfile": "FROM x\nCOPY . .\n", ".dockerignore": "*\n!data\n", "data/a": "1"}
    task = make_task(tmp_path / "task", **files)
    below = [
        {path.relative_to(root) for path in (root / "environment").rglob("*")}
        for root in (task.path, layered(task))
    ]
    assert below[0] == below[1]


def test_a_task_without_a_dockerfile_continues_its_image(tmp_path: Path) -> None:
    toml = '[environment]\ndocker_image = "registry/x:1"\nworkdir = "/a b"\nmemory_mb = 512\n'
    toml += '[environment.env]\nKEY = "a\\"b\\\\c\\n$HOME"\n'
    task = make_task(tmp_path / "task", toml)
    made = layered(task)
    assert (made / "environment/Dockerfile").read_text().startswith("FROM registry/x:1\n")
    config = read_environment(made)
    assert config.docker_image is None
    own = task.config.environment
    assert config.model_copy(update={"docker_image": own.docker_image}) == own
    assert Environment.read(made).workdir == Environment.read(task.path).workdir


def test_what_a_build_reads_is_that_of_the_task(tmp_path: Path) -> None:
    toml = "[environment]\nbuild_timeout_sec = 90\ncpus = 1.5\nstorage_mb = 5\n[agent]\nuser = 1\n"
    task = make_task(tmp_path / "task", toml, Dockerfile="FROM x\n")
    assert read_environment(layered(task)) == task.config.environment


def test_a_task_with_nothing_to_build_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="environment/Dockerfile: cannot be read; an agent is"):
        layered(make_task(tmp_path / "task"))


COMPOSED = [
    ("", "services: {db: {image: db}}", {"Dockerfile": "FROM own\n"}, "FROM own\n"),
    ("", "services: {main: {image: named}}", {}, "FROM named\n"),
    (
        "",
        "services: {main: {image: '${MAIN_IMAGE_NAME}', build: {context: '${CONTEXT_DIR}'}}}",
        {"Dockerfile": "FROM own\n"},
        "FROM own\n",
    ),
    ("", "services: {main: {build: app}}", {"app/Dockerfile": "FROM app\n"}, "FROM app\n"),
    (
        "",
        "services: {main: {build: {context: ., dockerfile: D, target: one}}}",
        {"D": "FROM x AS one\nFROM y\n"},
        "FROM x AS one\nFROM y\nFROM one\n",
    ),
    (
        '[environment]\ndocker_image = "given"\n',
        "services: {main: {image: named}}",
        {},
        "FROM given\n",
    ),
]


@pytest.mark.parametrize(("toml", "compose", "files", "start"), COMPOSED)
def test_of_several_services_main_is_layered(
    tmp_path: Path, toml: str, compose: str, files: dict[str, str], start: str
) -> None:
    task = make_task(tmp_path / "task", toml, **{"docker-compose.yaml": compose, **files})
    environment = layered(task) / "environment"
    model = yaml.safe_load((environment / "docker-compose.yaml").read_text())
    main = model["services"]["main"]
    assert "image" not in main
    assert "target" not in main["build"]
    context = main["build"]["context"].replace("${CONTEXT_DIR}", ".")
    dockerfile = environment / context / main["build"]["dockerfile"]
    assert dockerfile.read_text().startswith(start)
    assert script_in(dockerfile) == SCRIPT
    assert set(yaml.safe_load(compose)["services"]) <= set(model["services"])


def test_a_build_outside_the_environment_is_refused(tmp_path: Path) -> None:
    compose = {"docker-compose.yaml": "services: {main: {build: ../elsewhere}}"}
    with pytest.raises(BuildError, match="is not a directory in environment/"):
        layered(make_task(tmp_path / "task", **compose))
