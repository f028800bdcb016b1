"""A task that is found right at a glance is right: the schema would say the same of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.tasks.plain import PlainMetadata, plain_metadata
from pytest_aecbench.tasks.schema import parse_config
from pytest_aecbench.tasks.task import Task

if TYPE_CHECKING:
    from pathlib import Path

KEYS = {
    "metadata": "domain difficulty visibility lifecycle category tags pass_threshold check_allow",
    "agent": "timeout_sec user",
    "verifier": "timeout_sec environment_mode env",
    "environment": "docker_image build_timeout_sec cpus memory_mb storage_mb allow_internet "
    "memory network_mode workdir",
    "solution": "env",
    "generation": "template seed",
}
VALUES = (
    *('"easy"', '"public"', '"active"', '"shared"', '"odd"', '""', '" "', '"\\u0085"', '"\\u001c"'),
    *("0", "1", "0.5", "-1", "2.5", "1e9", "1e10", "inf", "nan", "true", "false"),
    *("[]", '["a"]', '["a", " "]', "[1]", "{}", "2020-01-01", "99999999999"),
)
TABLES = st.dictionaries(
    st.sampled_from([*KEYS, "odd"]),
    st.dictionaries(
        st.sampled_from([*" ".join(KEYS.values()).split(), "odd"]), st.sampled_from(VALUES)
    ),
)


def as_toml(tables: dict[str, dict[str, str]]) -> str:
    lines = ['version = "1.0"']
    for table, keys in tables.items():
        lines += [f"[{table}]", *(f"{key} = {value}" for key, value in keys.items())]
    return "\n".join([*lines, ""])


def compare(text: str) -> PlainMetadata | None:
    """Return what a glance finds, which must be what the schema finds."""
    found, parsed = plain_metadata(text), parse_config(text)
    if found is not None:
        assert (parsed.problems, parsed.warnings) == ((), ())
        assert parsed.config is not None
        assert found == tuple(getattr(parsed.config.metadata, key) for key in found._fields)
    return found


@given(TABLES)
def test_nothing_that_the_schema_refuses_or_warns_of_is_right_at_a_glance(
    tables: dict[str, dict[str, str]],
) -> None:
    compare(as_toml(tables))


@pytest.mark.parametrize("table", KEYS)
def test_no_single_value_is_right_at_a_glance_and_wrong_to_the_schema(table: str) -> None:
    found = [
        compare(as_toml({table: {key: value}})) for key in KEYS[table].split() for value in VALUES
    ]
    assert any(found) == (table != "solution")  # whose only key is left to the schema


def test_ordinary_tasks_need_only_a_glance() -> None:
    text = (
        'version = "1.0"\n[metadata]\ndifficulty = "hard"\ncategory = "reasoning"\n'
        'tags = ["a", "b"]\n[agent]\ntimeout_sec = 600.0\n[environment]\ncpus = 2\n'
        '[generation]\ntemplate = "x"\nseed = 7\n'
    )
    expected = PlainMetadata(difficulty="hard", category="reasoning", tags=("a", "b"))
    assert compare(text) == expected
    assert plain_metadata("not = toml = at all") is None


def a_task(root: Path) -> Path:
    for name, text in {
        "task.toml": 'version = "1.0"\n',
        "instruction.md": "Do it.\n",
        "tests/test.sh": "true\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("instruction.md", None),
        ("instruction.md", " \n"),
        ("tests/test.sh", None),
        ("task.toml", 'version = "1.0"\n[agent]\ntimeout_sec = -1\n'),
        ("tools/bash.py", ""),
        ("task.toml", 'version = "1.0"\n[environment]\ngpus = 1\n'),
    ],
)
def test_a_task_with_something_to_report_is_left_to_the_schema(
    tmp_path: Path, name: str, text: str | None
) -> None:
    task = a_task(tmp_path / "task")
    assert Task.glance(str(task), "task") is not None
    path = task / name
    if text is None:
        path.unlink()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert Task.glance(str(task), "task") is None


def test_plain_tasks_are_collected_without_pydantic(tmp_path: Path) -> None:
    a_task(tmp_path / "tasks" / "one")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    script = (
        "import sys, pytest\n"
        "code = int(pytest.main(['-q', '--collect-only', *sys.argv[1:]]))\n"
        "print('found:', [name for name in ('pydantic', 'filelock') if name in sys.modules], code)"
    )
    for place in ("tasks", "tasks/one/task.toml::trial[oracle-1]"):
        done = subprocess.run(
            [sys.executable, "-c", script, place, "-p", "no:cacheprovider"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert "trial[oracle-1]" in done.stdout
        assert done.stdout.splitlines()[-1] == "found: [] 0"
