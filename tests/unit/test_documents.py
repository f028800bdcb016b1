"""Configuration files are read strictly, quickly, and refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_aecbench.documents.strict import dump_yaml, read_json, read_toml, read_yaml
from pytest_aecbench.errors import SettingsError

Read = Callable[[Path], dict[str, Any]]
ANYHOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def refusal(read: Read, path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(f"{path}: ")


def test_yaml_is_read_as_json_with_fewer_quotes(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "no: no\nday: 2024-10-21\ntime: 1:30\nid: 010\nn: [1, -2.5, 1e3, true, ~]\n"
        "quoted: ['1', \"null\"]\n1: {a: }\n"
    )
    assert read_yaml(path) == {
        "no": "no",
        "day": "2024-10-21",
        "time": "1:30",
        "id": 10,
        "n": [1, -2.5, 1000.0, True, None],
        "quoted": ["1", "null"],
        "1": {"a": None},
    }


BOMB = "a: &a [x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise("abcdefg"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "line 2: '*a' is an alias; write the value out"),
        ("a: 1\nb: 2\na: 3\n", "line 3: key 'a' occurs twice; keep one"),
        ("a: {b: 1, b: 2}\n", "line 1: key 'b' occurs twice; keep one"),
        ("a: {b: .nan}", "a.b: nan is not valid; use a finite number"),
        ("a: [1, -.inf]", "a.1: -inf is not valid; use a finite number"),
        ("a: 1e999", "a: inf is not valid; use a finite number"),
        ("a: " + "9" * 5000, "a number has too many digits; write a smaller one"),
        ("a: " + "[" * 100_000, "line 1: values are nested too deep; nest them less"),
        ("a: !!python/name:os.system x", "line 1: 'tag:yaml.org,2002:python/name:os.system' is a"),
        ("a: !!binary aGk=", "line 1: 'tag:yaml.org,2002:binary' is a tag; write plain values"),
        ("a: 1\n---\nb: 2\n", "there are several documents; write one"),
        ("? [a, b]\n: 1\n", "line 1: a key is not a word; write 'key: value'"),
        ("a: b: c\n", "line 1: mapping values are not allowed in this context; write valid YAML"),
        ("a:\n\t- b\n", "line 2: found character that cannot start any token; write valid YAML"),
        ("", "contains no keys; write keys with values"),
        ("- a\n", "['a'] is not valid; write keys with values"),
        ("just words", "'just words' is not valid; write keys with values"),
    ],
)
def test_bad_yaml_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert refusal(read_yaml, path).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', "key 'a' occurs twice; keep one"),
        ('{"a": NaN}', "a: nan is not valid; use a finite number"),
        ('{"a": ' + "9" * 5000 + "}", "a number has too many digits; write a smaller one"),
        ("[" * 100_000, "values are nested too deep; nest them less"),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", "a.0.0: values are nested too deep; nest them less"),
        ("{", "line 1: expecting property name enclosed in double quotes; write valid JSON"),
        ("[]", "[] is not valid; write keys with values"),
    ],
)
def test_bad_json_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert refusal(read_json, path) == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1\na = 2", "line 2: cannot overwrite a value in 'a = 2'; write valid TOML"),
        ("a = nan", "a: nan is not valid; use a finite number"),
        ("a = 2024-10-21", "a: datetime.date(2024, 10, 21) is not valid; use a string"),
        ("a = " + "[" * 100_000, "values are nested too deep; nest them less"),
    ],
)
def test_bad_toml_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    assert refusal(read_toml, path).startswith(problem)


@pytest.mark.parametrize("read", [read_json, read_toml, read_yaml])
def test_what_is_no_text_file_is_refused_without_reading_it(tmp_path: Path, read: Read) -> None:
    assert refusal(read, tmp_path / "missing").startswith("no such file or directory; ")
    assert refusal(read, tmp_path) == "not a regular file; put a text file there"
    assert refusal(read, Path("/dev/zero")) == "not a regular file; put a text file there"
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    assert (
        refusal(read, tmp_path / "binary") == "byte 128, b'\\x80', is not UTF-8; save it as UTF-8"
    )
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(50 << 20)
    assert refusal(read, huge) == "more than 1 MiB; make it shorter"


@pytest.mark.parametrize("read", [read_json, read_toml, read_yaml])
@ANYHOW
@given(data=st.one_of(st.binary(), st.text().map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_keys_with_values_or_refused(tmp_path: Path, read: Read, data: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    message = None
    try:
        json.dumps(read(path), allow_nan=False)
    except SettingsError as error:
        message = str(error)
    assert message is None or (message.startswith(f"{path}: ") and "\n" not in message)


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@ANYHOW
@given(data=st.dictionaries(TEXT, JSON, min_size=1, max_size=3))
def test_what_is_written_is_read_back_as_it_was(tmp_path: Path, data: dict[str, Any]) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(dump_yaml(data).encode())
    assert read_yaml(path) == data


@pytest.mark.parametrize("word", ["1e5", "010", "~", "null", "true", "yes", "2024-10-21", ".nan"])
def test_words_that_look_like_values_stay_words(tmp_path: Path, word: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(dump_yaml({"a": word, word: 1}))
    assert read_yaml(path) == {"a": word, word: 1}
