"""The tools and MCP servers that a task declares."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest

from pytest_aecbench.agents.advisor import Advisor
from pytest_aecbench.agents.tools import SUBMIT, Bash, ReadFile, WriteFile
from pytest_aecbench.documents.problems import load_toml
from pytest_aecbench.errors import TaskError
from pytest_aecbench.settings.schema import json_schema
from pytest_aecbench.tasks.schema import parse_config
from pytest_aecbench.tasks.task import Task
from pytest_aecbench.tasks.tools import BUILT_IN, DeclaredTool
from tests.tasks import write_least, write_tree
from tests.unit.test_task import load, problems

DOCS = Path(__file__).parents[2] / "docs/tasks.md"
ENTRY = "[[environment.tools]]\n"
SERVER = "[[environment.mcp_servers]]\n"


def task_with(path: Path, toml: str = "", **files: str) -> Task:
    return load(
        write_tree(write_least(path, toml), {f"tools/{k}.py": text for k, text in files.items()})
    )


def test_a_file_is_declared_by_its_docstring(tmp_path: Path) -> None:
    task = task_with(tmp_path, area='"""Area of a circle.\n\n    Reads r.\n"""\nraise SystemExit')
    assert task.declared_tools == (
        DeclaredTool(
            "area",
            "Area of a circle.\n\nReads r.",
            "python3 /workspace/tools/area.py",
            {"type": "object", "properties": {}, "additionalProperties": True},
        ),
    )


@pytest.mark.parametrize("source", ["", "x = 1", "def :", "\0", "(" * 5000, 'b"""no"""', '"\\d"'])
def test_a_file_without_a_docstring_is_still_a_tool(tmp_path: Path, source: str) -> None:
    (tool,) = task_with(tmp_path, area=source).declared_tools
    assert tool.name == "area"
    assert tool.description in (
        "Run 'python3 /workspace/tools/area.py' with a JSON object on standard input.",
        "\\d",
    )


def test_an_entry_describes_its_file_better(tmp_path: Path) -> None:
    toml = f"""{ENTRY}name = "area"
description = "The area."
timeout_sec = 5
parameters = {{ required = ["r"], properties = {{ r = {{ type = "number" }} }} }}
"""
    (tool,) = task_with(tmp_path, toml, area='"""From the file."""').declared_tools
    assert (tool.description, tool.timeout_sec) == ("The area.", 5)
    assert tool.command == "python3 /workspace/tools/area.py"
    assert tool.parameters == {
        "type": "object",
        "required": ["r"],
        "properties": {"r": {"type": "number"}},
    }


def test_an_entry_without_a_description_has_its_files(tmp_path: Path) -> None:
    (tool,) = task_with(
        tmp_path, f"{ENTRY}name = 'area'", area='"""From the file."""'
    ).declared_tools
    assert tool.description == "From the file."


def test_an_entry_may_be_any_command(tmp_path: Path) -> None:
    (tool,) = task_with(tmp_path, f"{ENTRY}name = 'w'\ncommand = 'wc -c'").declared_tools
    assert (tool.name, tool.command) == ("w", "wc -c")


def test_entries_come_first_and_then_the_other_files(tmp_path: Path) -> None:
    toml = f"""{ENTRY}name = "z"
{ENTRY}name = "renamed"
command = "python3 /workspace/tools/b.py --quick"
"""
    task = task_with(tmp_path, toml, z="", b="", a="", _common="", c="")
    assert [tool.name for tool in task.declared_tools] == ["z", "renamed", "a", "c"]


def test_tools_are_where_the_working_directory_is(tmp_path: Path) -> None:
    (tool,) = task_with(tmp_path, "[environment]\nworkdir = '/app'", a="").declared_tools
    assert tool.command == "python3 /app/tools/a.py"


NAME = "use a name of at most 64 letters, digits, '_' and '-' that starts with a letter or '_'"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"0.name: missing; add {NAME.removeprefix('use ')}"),
        ("name = 'a b'", f"0.name: 'a b' is not valid; {NAME}"),
        (f"name = '{'a' * 65}'", f"0.name: '{'a' * 65}' is not valid; {NAME}"),
        ("name = 'bash'", "0.name: 'bash' is a built-in tool; use another name"),
        (
            f"name = 'a'\n{ENTRY}name = 'a'",
            ": two are named 'a'; give each its own name",
        ),
        (
            "name = 'a'\ntimeout_sec = 0",
            "0.timeout_sec: 0 is not valid; use a number of seconds from 0.001 to 1e9",
        ),
        (
            "name = 'a'\nparameters = { type = 'array' }",
            "0.parameters: type 'array' is not valid; use 'object'",
        ),
        (
            "name = 'a'\nparameters = { properties = [] }",
            "0.parameters: properties [] is not valid; use a table",
        ),
        (
            "name = 'a'\nparameters = { properties = { r = 'number' } }",
            "0.parameters: properties.r: 'number' is not valid; use a table",
        ),
        (
            "name = 'a'\nparameters = { required = ['r'] }",
            "0.parameters: required 'r' is not a property; add it to properties",
        ),
        (
            "name = 'a'\nparameters = { required = 'r' }",
            "0.parameters: required 'r' is not valid; use an array of names",
        ),
        (
            "name = 'a'\nparameters = { default = 1979-05-27 }",
            "0.parameters: holds a date, a time, nan or inf; use what JSON has",
        ),
        (
            "name = 'a'\nparameters = { default = nan }",
            "0.parameters: holds a date, a time, nan or inf; use what JSON has",
        ),
    ],
)
def test_a_bad_entry_is_one_line(text: str, problem: str) -> None:
    dot = "" if problem.startswith(":") else "."
    assert parse_config(ENTRY + text).problems == (f"environment.tools{dot}{problem}",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name = 'a'", "0: has no 'command'; stdio needs one"),
        ("name = 'a'\ntransport = 'sse'", "0: has no 'url'; sse needs one"),
        ("name = 'a'\nurl = 'x'", "0.url: 'x' is not valid; use a URL that starts with http"),
        (
            "name = 'a'\nurl = 'http://x'\ncommand = 'x'",
            "0: has both 'command' and 'url'; keep one",
        ),
        (
            "name = 'a'\nurl = 'http://x'\ntransport = 'http'",
            "0.transport: 'http' is not valid; use one of 'sse', 'stdio', 'streamable-http'",
        ),
        (
            "name = 'a'\nurl = 'http://x'\nheaders = { 'a b' = '' }",
            "0.headers.'a b': 'a b' is not valid; use names of HTTP headers with strings as values",
        ),
        (
            f"name = 'a'\ncommand = 'x'\n{SERVER}name = 'a'\ncommand = 'y'",
            ": two are named 'a'; give each its own name",
        ),
    ],
)
def test_a_bad_server_is_one_line(text: str, problem: str) -> None:
    dot = "" if problem.startswith(":") else "."
    assert parse_config(SERVER + text).problems == (f"environment.mcp_servers{dot}{problem}",)


def test_slips_in_entries_are_noticed() -> None:
    tools = f"{ENTRY}name = 'a'\n{ENTRY}name = 'b'\ncomand = 'x'\n"
    text = f"{tools}{SERVER}name = 's'\nurl = 'http://x'\nuri = 1"
    assert parse_config(text).warnings == (
        "environment.mcp_servers.0.uri: unknown key; did you mean 'url'?",
        "environment.tools.1.comand: unknown key; did you mean 'command'?",
    )


def test_an_entry_without_a_file_names_the_nearest(tmp_path: Path) -> None:
    write_least(tmp_path, f"{ENTRY}name = 'frictoin'\n{ENTRY}name = 'zzz'\n")
    write_tree(tmp_path, {"tools/friction.py": ""})
    one, other = problems(tmp_path)
    where = "task.toml: environment.tools"
    missing = "there is no file tools"
    assert one == f"{where}.0.name: {missing}/frictoin.py; did you mean 'friction'?"
    assert other == f"{where}.1.name: {missing}/zzz.py; add the file, or write a 'command'"


def test_a_file_whose_name_cannot_be_a_tools_is_refused(tmp_path: Path) -> None:
    write_tree(write_least(tmp_path), {"tools/bash.py": "", "tools/my tool.py": ""})
    one, other = problems(tmp_path)
    assert one == "tools/bash.py: 'bash' is a built-in tool; rename the file"
    right = "rename the file, or name it in the 'command' of an entry in [[environment.tools]]"
    assert other == f"tools/my tool.py: 'my tool' is not a tool's name; {right}"


def test_such_a_file_may_be_named_in_a_command(tmp_path: Path) -> None:
    toml = f"""{ENTRY}name = "mine"\ncommand = "python3 '/workspace/tools/my tool.py'"\n"""
    (tool,) = task_with(tmp_path, toml, **{"my tool": ""}).declared_tools
    assert tool.name == "mine"


def test_servers_get_the_hosts_variables(tmp_path: Path) -> None:
    toml = f"""{SERVER}name = "a"\ncommand = "x"\nargs = ["$NO"]\nenv = {{ K = "${{KEY}}" }}
{SERVER}name = "b"\nurl = "http://x"\nheaders = {{ Authorization = "Bearer $KEY" }}
"""
    task = task_with(tmp_path, toml)
    one, other = task.mcp_servers({"KEY": "value"})
    assert (one.kind, one.args, one.env) == ("stdio", ("$NO",), {"K": "value"})
    assert (other.kind, other.headers) == ("sse", {"Authorization": "Bearer value"})
    with pytest.raises(TaskError, match=r"environment\.mcp_servers\.0\.env\.K: variable 'KEY'"):
        task.mcp_servers({})


def test_the_documented_examples_are_valid() -> None:
    examples = re.findall(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert len(examples) == 2
    for text in examples:
        assert parse_config(text).problems == ()
        assert parse_config(text).warnings == ()
        assert jsonschema.Draft202012Validator(json_schema("task")).is_valid(load_toml(text))


def test_editors_see_mistakes_in_entries() -> None:
    schema = jsonschema.Draft202012Validator(json_schema("task"))
    assert not schema.is_valid({"environment": {"tools": [{"name": "a b"}]}})
    assert not schema.is_valid({"environment": {"mcp_servers": [{"url": "http://x"}]}})


def test_the_names_of_built_in_tools_are_those_of_the_agents() -> None:
    tools = (Advisor, Bash, ReadFile, WriteFile)
    assert {*BUILT_IN} == {SUBMIT, *(tool.spec.name for tool in tools)}
