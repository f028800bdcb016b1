"""The reward: what counts as one, what does not, and what the user is told."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.errors import VerifierError
from pytest_aecbench.trials.reward import Reward, describe, format_number, read_reward

if TYPE_CHECKING:
    from pathlib import Path

JSON = 'write {"reward": x} with x from 0 to 1'
TEXT = "write a number from 0 to 1"


def read(
    directory: Path,
    *,
    returncode: int | None = 0,
    timed_out: bool = False,
    output: str = "",
) -> Reward:
    return read_reward(
        directory,
        script="bash /tests/test.sh",
        returncode=returncode,
        timed_out=timed_out,
        output=output,
    )


def refusal(directory: Path) -> str:
    """Return the first line of the error, without the part about the script."""
    with pytest.raises(VerifierError) as raised:
        read(directory)
    return str(raised.value).splitlines()[0].removeprefix("bash /tests/test.sh (exit code 0): ")


@pytest.mark.parametrize(
    ("text", "value", "details"),
    [
        ('{"reward": 1}', 1.0, {}),
        ('{"reward": 0}', 0.0, {}),
        ('{"reward": 0.35}', 0.35, {}),
        ('{"reward": -0.0}', 0.0, {}),
        ('{"reward": true}', 1.0, {}),
        ('{"reward": false}', 0.0, {}),
        ('{"reward": "0.5"}', 0.5, {}),
        ('{"reward": " 1e-1 "}', 0.1, {}),
        (
            '{"reward": 0.35, "compliance": 0, "drop_v": 1.5}',
            0.35,
            {"compliance": 0, "drop_v": 1.5},
        ),
        ('{"reward": 1, "ok": true, "bad": false}', 1.0, {"ok": 1, "bad": 0}),
        ('{"reward": 1, "a": {"b": 1}, "c": null, "d": [1], "e": "fine"}', 1.0, {}),
        ('{"score": 0.25}', 0.25, {"score": 0.25}),
        ('{"a": 1, "b": 0, "c": 0.5}', 0.5, {"a": 1, "b": 0, "c": 0.5}),
        ('{"a": true, "b": false}', 0.5, {"a": 1, "b": 0}),
        ('{"a": 1, "b": 1, "c": 0}', 0.666666666667, {"a": 1, "b": 1, "c": 0}),
        ('{"reward": 0.33333333333333331}', 0.333333333333, {}),
        ("0.5", 0.5, {}),
        ("true", 1.0, {}),
        ('"0.75"', 0.75, {}),
        ("\ufeff 1\n", 1.0, {}),
        ('{"reward": 0.9999999999999999}', 1.0, {}),
        ('{"reward": 1.0000000000000002}', 1.0, {}),
        ('{"reward": -1e-17}', 0.0, {}),
        (
            '{"reward": 1, "big": 123456789012345678901234567890}',
            1.0,
            {"big": 1.2345678901234568e29},
        ),
    ],
)
def test_reward_json_is_read(
    tmp_path: Path, text: str, value: float, details: dict[str, float]
) -> None:
    (tmp_path / "reward.json").write_text(text, encoding="utf-8")
    reward = read(tmp_path)
    assert reward == Reward(value, "reward.json", details)
    assert str(reward.value) == str(value)  # no negative zero


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1.0), ("0\n", 0.0), (" 0.35 \n\n", 0.35), (".5", 0.5), ("1.", 1.0), ("True\n", 1.0)],
)
def test_reward_txt_is_read(tmp_path: Path, text: str, value: float) -> None:
    (tmp_path / "reward.txt").write_text(text)
    assert read(tmp_path) == Reward(value, "reward.txt")


def test_reward_json_goes_before_reward_txt(tmp_path: Path) -> None:
    (tmp_path / "reward.txt").write_text("0")
    (tmp_path / "reward.json").write_text("1")
    assert read(tmp_path) == Reward(1.0, "reward.json")
    (tmp_path / "reward.json").write_text("broken")
    assert refusal(tmp_path).startswith("reward.json: 'broken' is not JSON")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("no", "'no' is not JSON (Expecting value: line 1 column 1 (char 0))"),
        ('{"reward": 1', "is not JSON ("),
        ("1 2", "'1 2' is not JSON (Extra data: line 1 column 3 (char 2))"),
        (b"\xff\xfe", r"b'\xff\xfe' is not UTF-8"),
        ("NaN", "'NaN' is not JSON (NaN is not a number)"),
        ('{"reward": Infinity}', "is not JSON (Infinity is not a number)"),
        ('{"reward": -Infinity}', "is not JSON (-Infinity is not a number)"),
        ('{"reward": 1e999}', "is not JSON (a number is too large)"),
        ('{"reward": 1, "x": NaN}', "is not JSON (NaN is not a number)"),
        ('{"reward": ' + "9" * 5_000 + "}", "is not JSON (a number is too large)"),
        ('{"reward": 1, "x": "\\ud800"}', "is not JSON ("),
        ('{"reward": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
        (" " * ((1 << 20) + 1), "more than 1 MiB"),
        ('{"reward": 1.5}', "reward: 1.5 is out of range"),
        ('{"reward": -0.1}', "reward: -0.1 is out of range"),
        ('{"reward": "1e999"}', "reward: '1e999' is out of range"),
        ('{"reward": 1.0001}', "reward: 1.0001 is out of range"),
        ('{"reward": null}', "reward: None is not a number"),
        ('{"reward": [1]}', "reward: [1] is not a number"),
        ('{"reward": {"a": 1}}', "reward: {'a': 1} is not a number"),
        ('{"reward": "high"}', "reward: 'high' is not a number"),
        ('{"reward": "nan"}', "reward: 'nan' is not a number"),
        ('{"reward": "0_1"}', "reward: '0_1' is not a number"),
        ('{"reward": "50%"}', "reward: '50%' is not a number"),
        ('{"reward": ""}', "reward: '' is not a number"),
        ("{}", "an empty object"),
        ('{"a": 1, "b": "x"}', "no reward, and b: 'x' is not a number"),
        ('{"a": 1, "b": "1"}', "no reward, and b: '1' is not a number"),
        ('{"a": {"reward": 1}}', "no reward, and a: {'reward': 1} is not a number"),
        ('{"passed": 3, "total": 4}', "passed: 3 is out of range"),
        ("[1]", "[1] is not a number"),
        ("null", "None is not a number"),
        ("2", "2 is out of range"),
    ],
)
def test_anything_else_in_reward_json_is_an_error(
    tmp_path: Path, content: str | bytes, found: str
) -> None:
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / "reward.json").write_bytes(data)
    line = refusal(tmp_path)
    assert line.startswith("reward.json: ")
    assert line.endswith(f"{found}; {JSON}") or (found.endswith("(") and found in line)
    assert len(line) < 200


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty"),
        (b"nan", "'nan' is not a number"),
        (b"inf", "'inf' is not a number"),
        (b"1\n1", r"'1\n1' is not a number"),
        (b"pass", "'pass' is not a number"),
        ("\u0661".encode(), "'\u0661' is not a number"),
        (b"1.5", "'1.5' is out of range"),
        (b"-1", "'-1' is out of range"),
        (b"9" * 5_000, "is out of range"),
        (b"\x80", r"b'\x80' is not UTF-8"),
    ],
)
def test_anything_else_in_reward_txt_is_an_error(
    tmp_path: Path, content: bytes, found: str
) -> None:
    (tmp_path / "reward.txt").write_bytes(content)
    line = refusal(tmp_path)
    assert line.startswith("reward.txt: ")
    assert line.endswith(f"{found}; {TEXT}")
    assert len(line) < 200


@pytest.mark.parametrize(
    ("name", "form"), [("reward.txt", "{}"), ("reward.json", '{{"reward": "{}"}}')]
)
def test_many_digits_that_are_no_number_are_refused_at_once(
    tmp_path: Path, name: str, form: str
) -> None:
    (tmp_path / name).write_text(form.format("1" * 20_000 + "x"))
    started = time.process_time()
    assert "is not a number" in refusal(tmp_path)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("made", [True, False])
def test_no_reward_is_an_error(tmp_path: Path, made: bool) -> None:
    directory = tmp_path if made else tmp_path / "missing"
    missing = "no reward.json or reward.txt in /logs/verifier; write one of them"
    assert refusal(directory) == missing


@pytest.mark.parametrize("name", ["reward.json", "reward.txt"])
def test_only_a_regular_file_is_read(tmp_path: Path, name: str) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("1")
    directory = tmp_path / "verifier"
    directory.mkdir()
    file = directory / name

    def refused() -> bool:
        return refusal(directory).startswith(f"{name}: not a regular file; write ")

    file.symlink_to(target)
    assert refused()
    file.unlink()
    file.symlink_to("nowhere")
    assert refused()
    file.unlink()
    file.mkdir()
    assert refused()
    file.rmdir()
    os.mkfifo(file)
    assert refused()


def test_a_linked_directory_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "reward.txt").write_text("1")
    (tmp_path / "verifier").symlink_to(elsewhere)
    message = "/logs/verifier is a symbolic link; leave it a directory"
    assert refusal(tmp_path / "verifier") == message


def test_the_error_names_script_exit_code_last_lines_and_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "reward.txt").write_text("1.5")
    output = "".join(f"line {n}\n" for n in range(1, 31)) + "\x1b[31mred\x1b[0m\n\n"
    with pytest.raises(VerifierError) as raised:
        read(tmp_path, returncode=3, output=output)
    assert str(raised.value).splitlines() == [
        f"bash /tests/test.sh (exit code 3): reward.txt: '1.5' is out of range; {TEXT}",
        "the last it printed:",
        *(f"  line {n}" for n in range(22, 31)),
        "  \ufffd[31mred\ufffd[0m",
    ]


def test_the_error_shows_200_characters_of_a_line(tmp_path: Path) -> None:
    with pytest.raises(VerifierError) as raised:
        read(tmp_path, output=f"{'x' * 200}\n{'y' * 201}\n")
    _, _, whole, short = str(raised.value).splitlines()
    assert (whole, short) == ("  " + "x" * 200, "  " + "y" * 197 + "...")


def test_the_error_says_so_when_nothing_was_printed(tmp_path: Path) -> None:
    with pytest.raises(VerifierError) as raised:
        read(tmp_path, returncode=127, output="\n")
    first, last = str(raised.value).splitlines()
    assert first.startswith("bash /tests/test.sh (exit code 127): no reward.json")
    assert last == "it printed nothing"


def test_a_verifier_that_timed_out_has_no_reward_even_if_it_wrote_one(tmp_path: Path) -> None:
    (tmp_path / "reward.txt").write_text("0")
    with pytest.raises(VerifierError) as raised:
        read(tmp_path, returncode=None, timed_out=True, output="compiling\n")
    assert str(raised.value).splitlines() == [
        "bash /tests/test.sh (timed out): stopped at its deadline; raise verifier.timeout_sec",
        "the last it printed:",
        "  compiling",
    ]


def test_a_failed_exit_does_not_void_a_reward(tmp_path: Path) -> None:
    (tmp_path / "reward.txt").write_text("0")
    assert read(tmp_path, returncode=1).value == 0


def test_details_json_is_the_breakdown_and_names_the_details_if_nothing_else_does(
    tmp_path: Path,
) -> None:
    breakdown = {"voltage_drop_v": 1, "steps": [{"name": "a"}], "note": "fine"}
    (tmp_path / "details.json").write_text(json.dumps(breakdown))
    (tmp_path / "reward.json").write_text('{"reward": 1}')
    assert read(tmp_path) == Reward(1.0, "reward.json", {"voltage_drop_v": 1}, breakdown)
    (tmp_path / "reward.json").write_text('{"reward": 1, "own": 2}')
    assert read(tmp_path) == Reward(1.0, "reward.json", {"own": 2}, breakdown)
    (tmp_path / "details.json").write_text("[1, null]")
    assert read(tmp_path) == Reward(1.0, "reward.json", {"own": 2}, [1, None])


def test_a_breakdown_keeps_whole_numbers_that_every_reader_of_json_can_hold(tmp_path: Path) -> None:
    (tmp_path / "reward.txt").write_text("1")
    (tmp_path / "details.json").write_text(f"[{'9' * 18}, {'9' * 19}]")
    whole, long = cast("list[float]", read(tmp_path).breakdown)
    assert (whole, type(whole)) == (10**18 - 1, int)
    assert (long, type(long)) == (1e19, float)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty"),
        (b"{", "is not JSON"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b" " * ((1 << 20) + 1), "more than 1 MiB"),
    ],
)
def test_a_bad_details_json_is_a_warning(tmp_path: Path, content: bytes, found: str) -> None:
    (tmp_path / "reward.txt").write_text("1")
    (tmp_path / "details.json").write_bytes(content)
    reward = read(tmp_path)
    assert (reward.value, reward.breakdown) == (1.0, None)
    (warning,) = reward.warnings
    assert warning.startswith("details.json: ")
    assert found in warning


def test_a_linked_details_json_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"a": 1}')
    (tmp_path / "reward.txt").write_text("1")
    (tmp_path / "details.json").symlink_to("secret")
    warning = "details.json: not a regular file; there is no breakdown"
    assert read(tmp_path) == Reward(1.0, "reward.txt", warnings=(warning,))


@pytest.mark.parametrize(
    ("value", "threshold", "details", "text"),
    [
        (
            0.35,
            1.0,
            {"compliance": 0, "voltage_drop_v": 1},
            "reward 0.35, needed 1 (compliance 0, voltage_drop_v 1)",
        ),
        (0.0, 0.5, {}, "reward 0, needed 0.5"),
        (1 / 3, 1.0, {"v": 230.04999}, "reward 0.3333, needed 1 (v 230)"),
        (0.99999, 1.0, {}, "reward 0.99999, needed 1"),
        (0.0, 1.0, {"a\nb": 1}, r"reward 0, needed 1 ('a\nb' 1)"),
        (
            0.0,
            1.0,
            {f"n{n}": n for n in range(10)},
            "reward 0, needed 1 (n0 0, n1 1, n2 2, n3 3, n4 4, n5 5, n6 6, n7 7, 2 more)",
        ),
        (
            0.0,
            1.0,
            {f"n{n}": n for n in range(8)},
            "reward 0, needed 1 (n0 0, n1 1, n2 2, n3 3, n4 4, n5 5, n6 6, n7 7)",
        ),
        (0.0, 1.0, {"n" * 60: 1}, f"reward 0, needed 1 ({'n' * 60} 1)"),
        (0.0, 1.0, {"n" * 61: 1}, "reward 0, needed 1 ('nnnnnnnnnnnn...nnnnnnnnnnnnn' 1)"),
    ],
)
def test_a_reward_is_described_in_one_line(
    value: float, threshold: float, details: dict[str, float], text: str
) -> None:
    assert describe(Reward(value, "reward.json", details), threshold) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (2 / 3, "0.6667"),
        (0.10000, "0.1"),
        (12.3456, "12.35"),
        (1234.56, "1235"),
        (9999.4, "9999"),
        (9999.5, "10000"),
        (10_000, "10000"),
        (12345.6, "12346"),
        (999_999_999_999_999, "999999999999999"),
        (1e15, "1e+15"),
        (-1_000_000, "-1000000"),
        (0.000012345, "1.234e-05"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_written_for_people(number: float, text: str) -> None:
    assert format_number(number) == text


JSON_TEXT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["reward", "a", "\n"]), inner, max_size=3)
    ),
    max_leaves=5,
).map(lambda value: json.dumps(value).encode())


@given(
    name=st.sampled_from(["reward.json", "reward.txt"]),
    content=st.binary(max_size=30) | JSON_TEXT,
    details=st.none() | st.binary(max_size=30) | JSON_TEXT,
)
def test_no_bytes_raise_anything_but_a_verifier_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes, details: bytes | None
) -> None:
    directory = tmp_path_factory.getbasetemp() / "fuzzed-rewards"
    directory.mkdir(exist_ok=True)
    for file in directory.iterdir():
        file.unlink()
    (directory / name).write_bytes(content)
    if details is not None:
        (directory / "details.json").write_bytes(details)
    try:
        reward = read(directory)
    except VerifierError as error:
        lines = str(error).splitlines()
    else:
        assert 0 <= reward.value <= 1
        json.dumps([dict(reward.details), reward.breakdown], allow_nan=False)
        lines = [describe(reward, 1.0), *reward.warnings]
    assert all(line.isprintable() for line in lines)
