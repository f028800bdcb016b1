"""``.env`` fills in what the shell left out; ``$VAR`` is looked up, and its absence is one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_aecbench.documents.variables import expand_in, load_dotenv, variables_in
from pytest_aecbench.errors import SettingsError


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_the_shell_wins_over_the_file(tmp_path: Path) -> None:
    os.environ["FROM_SHELL"] = "shell"
    (tmp_path / ".env").write_text("# comment\nFROM_SHELL=file\nexport FROM_FILE='a b'\nBARE\n")
    loaded = load_dotenv(tmp_path)
    assert (os.environ["FROM_SHELL"], os.environ["FROM_FILE"]) == ("shell", "a b")
    assert loaded.added == ("FROM_FILE",)
    loaded.unload()
    assert "FROM_FILE" not in os.environ
    assert os.environ["FROM_SHELL"] == "shell"


def test_what_is_in_the_file_is_secret_unless_its_name_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "SOMETHING=1\nOPENAI_API_KEY=1\nMODAL_TOKEN_ID=1\nAWS_REGION=1\n"
        "AZURE_OPENAI_ENDPOINT=1\nAZURE_OPENAI_API_VERSION=1\nAWS_SONNET_MODEL_ID=1\n"
    )
    secret = load_dotenv(tmp_path).secret
    assert secret == ("SOMETHING", "OPENAI_API_KEY", "MODAL_TOKEN_ID")


def test_no_file_is_nothing(tmp_path: Path) -> None:
    assert load_dotenv(tmp_path) == ((), ())


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff")
    with pytest.raises(SettingsError, match=r"^[^\n]*\.env: byte 2, b'\\xff', is not UTF-8; save"):
        load_dotenv(tmp_path)


def test_a_value_that_cannot_be_set_is_one_line_without_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=secret\0value\n")
    with pytest.raises(SettingsError) as caught:
        load_dotenv(tmp_path)
    assert "'A' cannot be set; use NAME=VALUE" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_variables_are_filled_in_at_any_depth() -> None:
    data = {"a": ["$X", {"b": "${X}-${Y:-why}"}], "c": 1, "$X": "$$X"}
    filled = expand_in(data, "here", {"X": "ex"})
    assert filled == {"a": ["ex", {"b": "ex-why"}], "c": 1, "$X": "$X"}


def test_a_variable_that_is_not_set_is_one_line_that_says_where() -> None:
    with pytest.raises(SettingsError) as caught:
        expand_in({"token": ["$NOWHERE"]}, "x.yaml: compute.modal", {})
    assert str(caught.value) == (
        "x.yaml: compute.modal.token.0: variable 'NOWHERE' is not set; "
        "set it or write ${NOWHERE:-default}"
    )


def test_the_variables_in_data_are_those_that_would_be_replaced() -> None:
    data = {"$KEY": ["$A ${B} ${C:-$D}", {"x": ("$$E", 1, None, "5$")}], "y": "${F:-}"}
    assert variables_in(data) == {"A", "B", "C", "F"}
