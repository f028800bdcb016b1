"""A task directory: whether it is ours, what is wrong with it, and what it says."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.documents.variables import expand
from pytest_aecbench.errors import TaskError
from pytest_aecbench.tasks.task import Task, is_task
from pytest_aecbench.trials.reward import read_reward
from tests.tasks import write_least, write_tree

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parents[2] / "docs" / "tasks.md"


def load(path: Path, task_id: str = "electrical/ohms-law") -> Task:
    return Task.load(path, task_id=task_id)


def problems(path: Path) -> list[str]:
    """Return the lines of the task's one error, without the directory they start with."""
    with pytest.raises(TaskError) as raised:
        Task.load(path)
    return [line.removeprefix(f"{path}{os.sep}") for line in str(raised.value).splitlines()]


# ours or not


@pytest.mark.parametrize(
    ("files", "ours"),
    [
        ({}, False),
        ({"instruction.md": "Do it."}, False),
        ({"task.toml": "", "instruction.md": "Do it."}, True),
        ({"task.toml": "[ broken", "instruction.md": "Do it."}, True),
        ({"task.toml": b"\xff\xfe", "instruction.md": "Do it."}, True),
        ({"task.toml": "[metadata]"}, True),
        ({"task.toml": "[agent]"}, True),
        ({"task.toml": "[verifier]"}, True),
        ({"task.toml": "[environment]"}, True),
        ({"task.toml": ""}, False),
        ({"task.toml": "[tasks.build]\ncommand = 'make'"}, False),
        ({"task.toml": "metadata = 'no table'"}, False),
        ({"task.toml": "[ broken"}, False),
        ({"task.toml": b"\xff\xfe"}, False),
        ({"task.toml": "x = " + "[" * 20_000}, False),
        ({"task.toml": "x = " + "9" * 5_000}, False),
        ({"task.toml": "[metadata]\n" + "#" * (1 << 20)}, False),
        ({"task.toml/directory": ""}, False),
    ],
)
def test_only_our_own_task_files_are_claimed(
    tmp_path: Path, files: dict[str, str | bytes], ours: bool
) -> None:
    assert is_task(write_tree(tmp_path, files)) is ours


@pytest.mark.parametrize("name", ["missing", "x" * 5_000, "\x00"])
def test_asking_about_any_path_never_raises(tmp_path: Path, name: str) -> None:
    assert is_task(tmp_path / name) is False


def test_asking_about_a_pipe_does_not_wait_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "task.toml")
    assert is_task(tmp_path) is False
    (tmp_path / "instruction.md").write_text("Do it.")
    assert "task.toml: not a regular file; put a text file there" in problems(tmp_path)


# what is wrong


def test_a_right_task_loads_without_warnings(tmp_path: Path) -> None:
    task = load(write_least(tmp_path))
    assert (task.path, task.task_id, task.warnings) == (tmp_path, "electrical/ohms-law", ())
    assert task.instruction == "Do it."


def test_the_id_is_the_directory_name_unless_given(tmp_path: Path) -> None:
    assert Task.load(write_least(tmp_path / "ohms-law")).task_id == "ohms-law"


def test_everything_wrong_is_told_in_one_error(tmp_path: Path) -> None:
    toml = '[metadata]\ndifficulty = "eazy"\npass_threshold = 2\n'
    write_tree(tmp_path, {"task.toml": toml, "instruction.md": " \n"})
    assert problems(tmp_path) == [
        "task.toml: metadata.difficulty: 'eazy' is not valid; use one of 'easy', 'hard', 'medium'",
        "task.toml: metadata.pass_threshold: 2 is not valid; use a number from 0 to 1",
        "instruction.md: empty; write the prompt there",
        "tests: no verifier; add test.sh or verify.py",
    ]


def test_an_error_names_the_path_from_where_pytest_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_least(tmp_path / "tasks" / "x", '[metadata]\ndifficulty = "eazy"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError) as raised:
        Task.load(tmp_path / "tasks" / "x")
    assert str(raised.value) == (
        "tasks/x/task.toml: metadata.difficulty: 'eazy' is not valid; "
        "use one of 'easy', 'hard', 'medium'"
    )


def test_a_missing_directory_is_an_error_for_each_missing_part(tmp_path: Path) -> None:
    assert problems(tmp_path / "missing") == [
        "task.toml: no such file or directory; add a readable file",
        "instruction.md: no such file or directory; add a readable file",
        "tests: no verifier; add test.sh or verify.py",
    ]


@pytest.mark.parametrize("name", ["task.toml", "instruction.md"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"abc\xff", r"byte 3, b'\xff', is not UTF-8; save it as UTF-8"),
        (b"#" * ((1 << 20) + 1), "more than 1 MiB; make it shorter"),
    ],
)
def test_a_file_that_nobody_can_read_is_an_error(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    write_tree(write_least(tmp_path), {name: content})
    assert problems(tmp_path) == [f"{name}: {problem}"]


@pytest.mark.parametrize("name", ["task.toml", "instruction.md"])
def test_a_directory_or_endless_link_for_a_file_is_an_error(tmp_path: Path, name: str) -> None:
    path = write_least(tmp_path) / name
    path.unlink()
    path.mkdir()
    assert problems(tmp_path) == [f"{name}: not a regular file; put a text file there"]
    path.rmdir()
    path.symlink_to(path)
    (problem,) = problems(tmp_path)
    assert problem.startswith(f"{name}: too many levels of symbolic links; add a readable")


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    bom = b"\xef\xbb\xbf"
    task = load(write_least(tmp_path, bom + b'version = "1.0"', bom + b"Do it."))
    assert task.instruction == "Do it."


def test_warnings_name_the_file(tmp_path: Path) -> None:
    task = load(write_least(tmp_path, "[metadata]\ndificulty = 1"))
    assert task.warnings == (
        f"{tmp_path / 'task.toml'}: metadata.dificulty: unknown key; did you mean 'difficulty'?",
    )


@given(toml=st.binary(max_size=60), instruction=st.binary(max_size=20))
def test_no_bytes_raise_anything_but_a_task_error(
    tmp_path_factory: pytest.TempPathFactory, toml: bytes, instruction: bytes
) -> None:
    path = write_least(tmp_path_factory.getbasetemp() / "fuzzed", toml, instruction)
    assert is_task(path)
    try:
        task = Task.load(path)
    except TaskError as error:
        lines = str(error).splitlines()
    else:
        assert task.output_path.is_relative_to("/workspace")
        lines = list(task.warnings)
    assert all(": " in line and "; " in line and line.isprintable() for line in lines)


# what it says


@pytest.mark.parametrize(
    ("task_id", "toml", "domain"),
    [
        ("electrical/voltage-drop", "", "electrical"),
        ("electrical/cables/voltage-drop", "", "electrical"),
        ("voltage-drop", "", "general"),
        ("voltage-drop", '[metadata]\ndomain = "electrical"', "electrical"),
        ("a/b", '[metadata]\ndomain = "electrical"', "electrical"),
    ],
)
def test_domain_is_stated_or_the_first_part_of_the_id(
    tmp_path: Path, task_id: str, toml: str, domain: str
) -> None:
    assert load(write_least(tmp_path, toml), task_id).domain == domain


def test_markers_are_the_words_of_the_metadata_in_order_and_once(tmp_path: Path) -> None:
    toml = """
        [metadata]
        difficulty = "easy"
        visibility = "holdout"
        lifecycle = "deprecated"
        category = "reasoning"
        tags = ["AS-NZS-3008", "electrical", "fire safety", "a:b (c)", "***", "easy"]
    """
    assert load(write_least(tmp_path, toml)).markers == (
        "electrical",
        "easy",
        "holdout",
        "reasoning",
        "AS-NZS-3008",
        "fire-safety",
        "a-b-c",
        "deprecated",
    )


def test_markers_leave_out_what_the_metadata_does_not_say(tmp_path: Path) -> None:
    task = load(write_least(tmp_path))
    assert task.markers == ("electrical", "public")
    assert (task.difficulty, task.category, task.tags) == (None, None, ())
    assert task.visibility == "public"


@pytest.mark.parametrize(
    ("instruction", "path"),
    [
        ("Do it.", "/workspace/output.jsonl"),
        ("Write /workspace/answer.json.", "/workspace/answer.json"),
        ("Write `/workspace/answer.json`, please", "/workspace/answer.json"),
        ("Write **/workspace/a/b-c_d.json**:", "/workspace/a/b-c_d.json"),
        ('Write "/workspace/a.json"!', "/workspace/a.json"),
        ("See [here](/workspace/a.json).", "/workspace/a.json"),
        ("Read /workspace/in.csv, write /workspace/out.csv; done", "/workspace/out.csv"),
        ("Write to /workspace/out.csv.\nFiles are in /workspace/data/.", "/workspace/out.csv"),
        ("All is in /workspace and /workspace/.", "/workspace/output.jsonl"),
        ("Not /home/workspace/a.json", "/workspace/output.jsonl"),
        ("Not /workspace/../etc/passwd", "/workspace/output.jsonl"),
        ("Écris /workspace/résultat.json", "/workspace/résultat.json"),
    ],
)
def test_the_output_is_the_last_workspace_file_that_the_prompt_names(
    tmp_path: Path, instruction: str, path: str
) -> None:
    task = load(write_least(tmp_path, instruction=instruction))
    assert task.output_path == PurePosixPath(path)


@pytest.mark.parametrize(
    ("toml", "dockerfile", "workdir"),
    [
        ("", None, "/workspace"),
        ("", "FROM python:3.12\n", "/workspace"),
        ("", "FROM python:3.12\nWORKDIR /app\n", "/app"),
        ("", "FROM a\r\nworkdir /app\r\nRUN b\r\nWORKDIR src\r\n", "/app/src"),
        ("", 'FROM a\n# WORKDIR /no\nWORKDIR "/my app"\n', "/my app"),
        ("", "FROM a\nWORKDIR $HOME\n", "/workspace"),
        ('[environment]\nworkdir = "/data"', "FROM a\nWORKDIR /app\n", "/data"),
    ],
)
def test_workdir_is_stated_or_the_dockerfiles_last(
    tmp_path: Path, toml: str, dockerfile: str | None, workdir: str
) -> None:
    write_least(tmp_path, toml)
    if dockerfile is not None:
        write_tree(tmp_path, {"environment/Dockerfile": dockerfile})
    assert load(tmp_path).workdir == PurePosixPath(workdir)


def test_the_output_is_looked_for_only_below_the_workdir(tmp_path: Path) -> None:
    instruction = "Write /workspace/results/a.json."
    task = load(write_least(tmp_path, instruction=instruction))
    assert task.output_below_workdir() == PurePosixPath("results/a.json")
    elsewhere = load(write_least(tmp_path, '[environment]\nworkdir = "/app"', instruction))
    assert elsewhere.output_below_workdir() is None


def test_a_shell_verifier_goes_before_a_python_one(tmp_path: Path) -> None:
    task = load(write_tree(write_least(tmp_path), {"tests/verify.py": ""}))
    assert task.verifier_command == "bash /tests/test.sh"
    (task.tests_dir / "test.sh").unlink()
    assert load(tmp_path).verifier_command == "python3 /tests/verify.py"


def test_a_shell_solution_goes_before_a_python_one(tmp_path: Path) -> None:
    task = load(write_least(tmp_path))
    assert task.solution_script is None
    write_tree(tmp_path, {"solution/solve.py": ""})
    assert task.solution_script == task.solution_dir / "solve.py"
    write_tree(tmp_path, {"solution/solve.sh": ""})
    assert task.solution_script == task.solution_dir / "solve.sh"


def test_tools_are_the_python_files_in_order(tmp_path: Path) -> None:
    task = load(write_least(tmp_path))
    assert not task.tools
    names = "gdbfaceh"
    write_tree(tmp_path, {f"tools/{name}.py": "" for name in names})
    write_tree(tmp_path, {"tools/notes.txt": "", "tools/directory.py/x": ""})
    assert [tool.name for tool in task.tools] == [f"{name}.py" for name in sorted(names)]


# variables


@pytest.mark.parametrize(
    ("value", "expanded"),
    [
        ("plain", "plain"),
        ("$KEY", "secret"),
        ("${KEY}", "secret"),
        ("a-${KEY}-$KEY!", "a-secret-secret!"),
        ("${KEY:-other}", "secret"),
        ("${MISSING:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${MISSING:-}", ""),
        ("$EMPTY", ""),
        ("$$KEY", "$KEY"),
        ("5$ and $5", "5$ and $5"),
        ("$NESTED", "$KEY"),
    ],
)
def test_variables_are_filled_in_from_the_host(value: str, expanded: str) -> None:
    assert expand(value, {"KEY": "secret", "EMPTY": "", "NESTED": "$KEY"}) == expanded


SYNTAX = "write ${VAR} or ${VAR:-default}, and $$ for a dollar sign"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("$NO", "variable 'NO' is not set; set it or write ${NO:-default}"),
        ("x${NO}", "variable 'NO' is not set; set it or write ${NO:-default}"),
        (
            "${NO:default}",
            f"'${{NO:default}}' is not a variable; {SYNTAX}",
        ),
        ("${NO", f"'${{NO' is not a variable; {SYNTAX}"),
    ],
)
def test_a_variable_that_cannot_be_filled_in_is_an_error(value: str, problem: str) -> None:
    with pytest.raises(ValueError) as raised:
        expand(value, {})
    assert str(raised.value) == problem


def test_an_unset_variable_is_an_error_only_when_the_trial_needs_it(tmp_path: Path) -> None:
    toml = """
        [environment]
        env = { A = "$HOST_A" }
        [verifier]
        env = { B = "${HOST_B:-b}" }
        [solution]
        env = { C = "c" }
    """
    task = load(write_least(tmp_path, toml))
    assert task.environment_env({"HOST_A": "a"}) == {"A": "a"}
    assert task.verifier_env({}) == {"B": "b"}
    assert task.solution_env({}) == {"C": "c"}
    with pytest.raises(TaskError) as raised:
        task.environment_env({})
    assert str(raised.value) == (
        f"{tmp_path / 'task.toml'}: environment.env.A: "
        "variable 'HOST_A' is not set; set it or write ${HOST_A:-default}"
    )


def test_a_task_names_the_variables_that_it_hands_over(tmp_path: Path) -> None:
    toml = """
        [environment]
        env = { A = "$HOST_A", B = "b" }
        [[environment.mcp_servers]]
        name = "units"
        url = "http://localhost:1/mcp"
        headers = { Authorization = "Bearer ${HEADER:-none}" }
        [[environment.mcp_servers]]
        name = "tables"
        command = "tables"
        env = { KEY = "${SERVER}" }
        [verifier]
        env = { C = "${VERIFIER}" }
        [solution]
        env = { D = "$SOLUTION $$E" }
    """
    names = {"HOST_A", "HEADER", "SERVER", "VERIFIER", "SOLUTION"}
    assert load(write_least(tmp_path, toml)).variables == names


# digest


def digest_of(path: Path) -> str:
    return load(path).digest


def test_the_digest_frames_each_kind_name_and_content(tmp_path: Path) -> None:
    path = write_least(tmp_path, "[agent]")
    (path / "tests/test.sh").chmod(0o755)
    (path / "link").symlink_to("task.toml")
    parts = (
        *(b"file", b"instruction.md", b"Do it."),
        *(b"link", b"link", b"task.toml"),
        *(b"file", b"task.toml", b"[agent]"),
        *(b"program", b"tests/test.sh", b"true"),
    )
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert digest_of(path) == f"sha256:{hashlib.sha256(framed).hexdigest()}"


def test_the_digest_does_not_depend_on_the_place(tmp_path: Path) -> None:
    assert digest_of(write_least(tmp_path / "a")) == digest_of(write_least(tmp_path / "deeper/b"))


def test_every_byte_name_and_executable_bit_counts(tmp_path: Path) -> None:
    changes: list[Callable[[], object]] = [
        lambda: write_least(tmp_path),
        lambda: (tmp_path / "instruction.md").write_text("Do it!"),
        lambda: (tmp_path / "instruction.md").chmod(0o755),
        lambda: write_tree(tmp_path, {"empty": ""}),
        lambda: (tmp_path / "empty").rename(tmp_path / "renamed"),
        lambda: write_tree(tmp_path, {"environment/data.bin": b"\x00" * 100}),
        lambda: write_tree(tmp_path, {"environment/data.bin": b"\x00" * 101}),
    ]
    digests = set()
    for change in changes:
        change()
        digests.add(digest_of(tmp_path))
    assert len(digests) == len(changes)


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store",
        ".git/HEAD",
        ".git",
        ".pytest_cache/v",
        ".hypothesis/x",
        "tests/__pycache__/verify.cpython-312.pyc",
        "tests/verify.pyc",
        "empty/directory/.DS_Store",
    ],
)
def test_what_tools_leave_behind_does_not_count(tmp_path: Path, name: str) -> None:
    before = digest_of(write_least(tmp_path))
    write_tree(tmp_path, {name: "left behind"})
    assert digest_of(tmp_path) == before


def test_a_link_counts_by_where_it_points_and_is_not_followed(tmp_path: Path) -> None:
    outside = write_tree(tmp_path / "outside", {"secret": "1"})
    path = write_least(tmp_path / "task")
    (path / "file").symlink_to("../outside/secret")
    (path / "directory").symlink_to("../outside")
    (path / "dangling").symlink_to("nowhere")
    before = digest_of(path)
    (outside / "secret").write_text("2")
    assert digest_of(path) == before
    (path / "dangling").unlink()
    (path / "dangling").symlink_to("elsewhere")
    other = digest_of(path)
    assert other != before
    (path / "dangling").unlink()
    (path / "dangling").write_text("elsewhere")
    assert digest_of(path) != other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"ab": b"c"}, {"a": b"bc"}),
        ({"a": b"bc", "d": b""}, {"a": b"b", "d": b"c"}),
        ({"a": b"b" + bytes(7) + b"\x01c"}, {"a": b"b", "c": b""}),
        ({"a": b"", "b": b""}, {"a": b"b", "c": b""}),
        ({"a/b": b""}, {"a": b"/b"}),
        ({"a/b": b""}, {"a": b"", "b": b""}),
        ({"a": b"file"}, {"afile": b""}),
    ],
)
def test_bytes_cannot_move_between_names_and_contents_unnoticed(
    tmp_path: Path, one: dict[str, bytes], other: dict[str, bytes]
) -> None:
    first = write_tree(write_least(tmp_path / "1"), one)
    second = write_tree(write_least(tmp_path / "2"), other)
    assert digest_of(first) != digest_of(second)


TREES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "ab", "é"]), min_size=1, max_size=2).map("/".join),
    st.binary(max_size=3),
    max_size=4,
).filter(lambda tree: not any(other.startswith(f"{name}/") for name in tree for other in tree))


@given(one=TREES, other=TREES)
def test_two_trees_have_the_same_digest_exactly_when_they_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, one: dict[str, bytes], other: dict[str, bytes]
) -> None:
    base = tmp_path_factory.mktemp("trees")
    first = write_tree(write_least(base / "1"), one)
    second = write_tree(write_least(base / "2"), dict(reversed(other.items())))
    assert (digest_of(first) == digest_of(second)) is (one == other)


# the documentation's example


def test_the_documented_example_can_be_pasted_and_run(tmp_path: Path) -> None:
    (script,) = re.findall(
        r"^```bash\n(mkdir .*?)^```$", DOCS.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True)
    (file,) = tmp_path.glob("tasks/*/*/task.toml")
    task = Task.load(file.parent)
    assert task.warnings == ()

    root = tmp_path / "sandbox"
    for source in (*task.tests_dir.iterdir(), *task.solution_dir.iterdir()):
        text = re.sub(r"(?<!\w)(?=/(?:logs|tests|workspace)/)", str(root), source.read_text())
        write_tree(root, {source.relative_to(task.path).as_posix(): text})

    def graded(solve: bool) -> float:
        for name in ("workspace", "logs/verifier"):
            (root / name).mkdir(parents=True, exist_ok=True)
        scripts = ("solution/solve.sh", "tests/test.sh") if solve else ("tests/test.sh",)
        for script in scripts:
            subprocess.run(["bash", root / script], cwd=root / "workspace", check=True)
        return read_reward(
            root / "logs/verifier", script="", returncode=0, timed_out=False, output=""
        ).value

    assert graded(solve=False) == 0
    assert graded(solve=True) == 1


@pytest.mark.parametrize(
    ("dockerfile", "workdir"),
    [
        ("FROM a AS build\nWORKDIR /src\nFROM b\n", "/workspace"),
        ("FROM a AS build\nWORKDIR /src\nFROM build\nWORKDIR deep\n", "/src/deep"),
        ("FROM a\nENV D=/x\nWORKDIR $D\n", "/x"),
        ("FROM a\nWORKDIR /\n", "/workspace"),
        ("FROM a\nWORKDIR '/with space'\n", "/with space"),
        ("WORKDIR /early\n", "/workspace"),
    ],
)
def test_a_task_and_its_backends_agree_on_where_work_is_done(
    tmp_path: Path, dockerfile: str, workdir: str
) -> None:
    from pytest_aecbench.backends.remote import Environment

    directory = write_least(tmp_path)
    (directory / "environment").mkdir(exist_ok=True)
    (directory / "environment/Dockerfile").write_text(dockerfile)
    assert str(Task.load(directory).workdir) == workdir
    if dockerfile.startswith("FROM"):
        assert str(Environment.read(directory).workdir) == workdir


def test_a_ready_image_makes_the_dockerfile_count_for_nothing(tmp_path: Path) -> None:
    directory = write_least(tmp_path)
    (directory / "task.toml").write_text('[environment]\ndocker_image = "x:1"\n')
    (directory / "environment").mkdir(exist_ok=True)
    (directory / "environment/Dockerfile").write_text("FROM a\nWORKDIR /elsewhere\n")
    assert str(Task.load(directory).workdir) == "/workspace"


def test_caches_and_dangling_links_do_not_rebuild_an_image(tmp_path: Path) -> None:
    from pytest_aecbench.tasks.digest import context_digest

    (tmp_path / "data").mkdir()
    (tmp_path / "data/input.csv").write_text("1")
    before = context_digest(tmp_path)
    (tmp_path / ".DS_Store").write_text("x")
    (tmp_path / "data/__pycache__").mkdir()
    (tmp_path / "data/__pycache__/a.pyc").write_text("x")
    assert context_digest(tmp_path) == before
    (tmp_path / "link").symlink_to("nowhere")
    linked = context_digest(tmp_path)
    assert linked != before
    (tmp_path / "data/input.csv").chmod(0o600)
    private = context_digest(tmp_path)
    (tmp_path / "empty").mkdir()
    assert len({before, linked, private, context_digest(tmp_path)}) == 4
