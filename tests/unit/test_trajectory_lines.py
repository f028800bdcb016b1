"""Trajectories as lines of a terminal, and the files that they come from."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.agents.trajectory import FILE, HEADER, Entry, Trajectory, read_trajectory
from pytest_aecbench.host.secrets import Scrubber
from pytest_aecbench.reports.trajectory import Follower, Style, entry_lines
from tests.unit.test_atif import ENTRIES, REPLY

KEY = "sk-ant-0123456789abcdef"
PLAIN = Style(width=60)


def lines(entry: Entry, style: Style = PLAIN) -> list[str]:
    return list(entry_lines(entry, style))


def test_a_turn_has_its_model_tokens_cost_and_times() -> None:
    assert lines(
        replace(REPLY, metadata={**REPLY.metadata, "failures": ["RateLimited: slow"]})
    ) == [
        "",
        "turn 1: m-2026, 100 in, 30 from cache, 5 to cache, 20 out,",
        "0.2500 USD, 2.1 s, waited 1.5 s, failed before: 1",
        "| The file first.",
        "I look.",
    ]


def test_facts_that_are_not_known_are_left_out() -> None:
    assert lines(Entry("assistant", "Hm.", turn=3)) == ["", "turn 3", "Hm."]


@pytest.mark.parametrize(
    ("metadata", "heading"),
    [
        ({"stop": "length"}, "turn 1: cut at max_tokens"),
        ({"stop": "refusal"}, "turn 1: refused"),
        ({"stop": "end"}, "turn 1"),
        ({"refused": "a filter"}, "turn 1: refused: a filter"),
        ({"cached": True, "cost_usd": 0.0}, "turn 1: 0.0000 USD, from the cache of replies"),
    ],
)
def test_a_turn_that_is_unusual_says_so(metadata: dict[str, object], heading: str) -> None:
    assert lines(Entry("assistant", turn=1, metadata=metadata)) == ["", heading]


def test_a_command_looks_like_one() -> None:
    arguments = {"command": "cd /tmp\nls"}
    entry = Entry("tool_call", tool_name="bash", arguments=arguments)
    assert lines(entry) == ["$ cd /tmp", "  ls"]


def test_other_tools_show_their_arguments() -> None:
    arguments = {"path": "a.txt", "content": "one\n\ttwo\n", "mode": 7}
    assert lines(Entry("tool_call", tool_name="write_file", arguments=arguments)) == [
        "write_file",
        "  path: a.txt",
        "  content:",
        "    one",
        "        two",
        "  mode: 7",
    ]


def test_arguments_that_are_not_json_are_shown_as_they_are() -> None:
    entry = Entry("tool_call", '{"command": ', tool_name="bash")
    assert lines(entry) == ["bash", '  {"command":']


def test_a_result_has_its_exit_code_and_both_outputs() -> None:
    entry = Entry(
        "tool_result", "all", stdout="out\n", stderr="err\n", exit_code=2, duration_ms=100
    )
    assert lines(entry) == ["  exit 2, 0.1 s", "  out", "  stderr:", "  err"]
    told = Entry("tool_result", "there is no tool 'x'", metadata={"is_error": True})
    assert lines(told) == ["  error", "  there is no tool 'x'"]


def test_long_texts_keep_both_ends_unless_they_are_wanted_whole() -> None:
    entry = Entry("user", "\n".join(map(str, range(100))))
    short = lines(entry, replace(PLAIN, max_lines=6, more="; more"))
    assert short == ["", "user", "0", "1", "2", "3", "[94 lines left out; more]", "98", "99"]
    assert lines(entry, replace(PLAIN, max_lines=None)) == ["", "user", *map(str, range(100))]


def test_prose_is_wrapped_and_output_clipped() -> None:
    style = Style(width=20)
    assert lines(Entry("user", "some words that go on and on"), style) == [
        "",
        "user",
        "some words that go",
        "on and on",
    ]
    result = Entry("tool_result", stdout="0123456789" * 3)
    assert lines(result, style) == ["  012345678901234..."]
    assert lines(result, replace(style, max_lines=None)) == ["  " + "0123456789" * 3]


def test_colours_are_only_where_they_are_wanted() -> None:
    failed = Entry("tool_result", exit_code=1)
    assert lines(failed) == ["  exit 1"]
    assert lines(failed, replace(PLAIN, colour=True)) == ["\x1b[31m  exit 1\x1b[0m"]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_style_is_that_of_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Style.of(Screen()) == Style(width=40, colour=True)
    assert Style.of(io.StringIO()) == Style(width=40)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Style.of(Screen()).colour
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not Style.of(Screen()).colour
    monkeypatch.setenv("COLUMNS", "2")
    assert Style.of(Screen()).width == 20


@given(entry=ENTRIES, width=st.integers(20, 200), whole=st.booleans())
def test_any_entry_is_safe_to_print_and_fits(entry: Entry, width: int, whole: bool) -> None:
    for line in lines(entry, Style(width, max_lines=None if whole else 12)):
        assert line.isprintable()
        assert whole or len(line) <= width


def test_a_follower_shows_entries_as_they_happen(tmp_path: Path) -> None:
    shown: list[str] = []
    trajectory = Trajectory(tmp_path, follow=Follower(shown.append))
    trajectory.add("user", "Do it.")
    assert shown == ["\nuser\nDo it."]
    trajectory.add("tool_call", tool_name="bash", arguments={"command": "ls"})
    assert shown[1:] == ["$ ls"]
    trajectory.close()


def read(directory: Path, data: bytes) -> tuple[list[str], list[str]]:
    """Return the contents of the entries in a file of these bytes, and the reported lines."""
    path = directory / FILE
    path.write_bytes(data)
    problems: list[str] = []
    entries = read_trajectory(path, problems.append)
    return [entry.content for entry in entries], problems


FIRST = json.dumps(HEADER).encode() + b"\n"
LINE = b'{"step": 1, "role": "user", "content": "x"}\n'


def test_a_torn_last_line_is_not_damage(tmp_path: Path) -> None:
    assert read(tmp_path, FIRST + LINE + LINE[:-9]) == (["x"], [])


@pytest.mark.parametrize(
    "damage",
    [
        b"\0\0\0\n",
        b"[]\n",
        b'{"role": "user", "content": 7}\n',
        b'{"role": "king"}\n',
        b'{"role": "user", "metadata": []}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_damaged_lines_are_reported_and_the_others_read(tmp_path: Path, damage: bytes) -> None:
    contents, problems = read(tmp_path, FIRST + damage + LINE)
    assert contents == ["x"]
    assert problems == [f"{tmp_path / FILE}: line 2 is not an entry of a trajectory"]


def test_a_file_without_the_header_is_reported(tmp_path: Path) -> None:
    _, problems = read(tmp_path, b'{"format": "other"}\n' + LINE)
    assert problems == [f"{tmp_path / FILE}: line 1 is not an entry of a trajectory"]


def test_a_pipe_in_place_of_a_trajectory_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(OSError, match="not a regular file"):
        list(read_trajectory(tmp_path / FILE))


def test_keys_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    line = b'{"role": "user", "content": "x", "mood": "good", "turn": null}\n'
    assert read(tmp_path, FIRST + line) == (["x"], [])


@pytest.mark.parametrize("word", ["assistant", "metadata", "arguments", "tokens_in", "reasoning"])
def test_a_secret_that_is_a_word_of_trajectories_leaves_them_whole(
    tmp_path: Path, word: str
) -> None:
    trajectory = Trajectory(tmp_path, Scrubber({"STAGE": word, "MY_TOKEN": KEY}))
    about = {"tokens_in": 12, "reasoning": f"use {KEY}"}
    trajectory.add("assistant", KEY, turn=1, arguments={KEY: [KEY]}, metadata=about)
    trajectory.close()
    (entry,) = read_trajectory(tmp_path / FILE)
    assert (entry.role, entry.content) == ("assistant", "<MY_TOKEN>")
    assert entry.arguments == {"<MY_TOKEN>": ["<MY_TOKEN>"]}
    assert entry.usage.tokens_in == 12
    assert entry.text("reasoning") == "use <MY_TOKEN>"
