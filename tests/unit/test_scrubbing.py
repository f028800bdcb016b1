from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.host.secrets import Scrubber, names_credential, secrets_from

KEY = "sk-ant-0123456789abcdef"
AWKWARD = 'pä"ss/w ö\nrd+&!'
SCRUBBER = Scrubber({"ANTHROPIC_API_KEY": KEY})


def test_a_secret_is_replaced_by_its_name_wherever_it_stands() -> None:
    assert SCRUBBER.text(f"{KEY} x{KEY}{KEY}") == (
        "<ANTHROPIC_API_KEY> x<ANTHROPIC_API_KEY><ANTHROPIC_API_KEY>"
    )


def test_text_without_secrets_is_returned_as_it_is() -> None:
    text = "nothing to see " * 3
    assert SCRUBBER.text(text) is text


@pytest.mark.parametrize(
    "written",
    [
        AWKWARD,
        json.dumps(AWKWARD),
        json.dumps(AWKWARD, ensure_ascii=False),
        quote(AWKWARD),
        quote(AWKWARD, safe=""),
        quote_plus(AWKWARD),
        quote(AWKWARD, safe="!'()*"),
    ],
)
def test_a_secret_is_found_json_escaped_and_url_quoted(written: str) -> None:
    assert Scrubber({"PASSWORD": AWKWARD}).text(written).strip('"') == "<PASSWORD>"


def test_of_two_secrets_the_longer_is_replaced_where_one_contains_the_other() -> None:
    scrubber = Scrubber({"SHORT": "abcdefgh", "LONG": "abcdefgh-ijkl", "INNER": "fgh-ijkl"})
    assert scrubber.text("abcdefgh-ijkl abcdefgh fgh-ijkl") == "<LONG> <SHORT> <INNER>"


def test_nothing_is_left_of_secrets_that_overlap() -> None:
    scrubber = Scrubber({"LEFT": "abcdefgh1234", "RIGHT": "1234ijklmnop"})
    assert scrubber.text("-abcdefgh1234ijklmnop-") == "-<LEFT>-"
    assert Scrubber({"A": "aaaaaaaa"}).text("b" + "a" * 13 + "b") == "b<A>b"


@pytest.mark.parametrize("kept", [4, 7, 11])
def test_a_secret_cut_in_two_by_capped_output_is_not_left_in_parts(
    tmp_path: Path, kept: int
) -> None:
    secret = "sk-live-1234"
    scrubber = Scrubber({"API_KEY": secret})
    cut = "\n[4096 bytes left out]\n"
    text = f"one {secret[:kept]}{cut}{secret[-kept:]} two"
    assert scrubber.text(text) == f"one <API_KEY>{cut}<API_KEY> two"
    file = tmp_path / "stdout.txt"
    file.write_text(text)
    assert scrubber.file(file)
    assert file.read_text() == f"one <API_KEY>{cut}<API_KEY> two"


def test_what_only_looks_like_part_of_a_secret_is_left_alone() -> None:
    scrubber = Scrubber({"API_KEY": "sk-live-1234"})
    for text in ("sk-live", "sk-\n[9 bytes left out]\n234", "sk-live \n[9 bytes left out]\n 1234"):
        assert scrubber.text(text) == text


def test_names_that_share_a_value_share_its_replacement() -> None:
    assert Scrubber({"FIRST": KEY, "SECOND": KEY}).text(KEY) == "<FIRST>"


def test_space_around_a_value_is_not_part_of_the_secret() -> None:
    assert Scrubber({"TOKEN": f" {KEY}\n"}).text(f"[{KEY}]") == "[<TOKEN>]"


@pytest.mark.parametrize("value", ["", "true", "1234567", "       ", "password", "Changeme"])
def test_values_that_are_short_or_everyday_words_are_left_alone(value: str) -> None:
    scrubber = Scrubber({"DB_PASSWORD": value})
    assert scrubber.text(f"a {value} b") == f"a {value} b"
    assert not scrubber


def test_the_path_of_an_existing_file_is_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    file.touch()
    scrubber = Scrubber({"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
    assert scrubber.text(str(file)) == str(file)


def test_json_is_scrubbed_in_keys_and_values_at_every_depth() -> None:
    value = {KEY: [1, None, True, {"a": (f"x{KEY}",)}], "b": 0.5}
    assert SCRUBBER.json(value) == {
        "<ANTHROPIC_API_KEY>": [1, None, True, {"a": ["x<ANTHROPIC_API_KEY>"]}],
        "b": 0.5,
    }


def test_an_empty_scrubber_changes_and_copies_nothing(tmp_path: Path) -> None:
    scrubber = Scrubber({})
    value = {"a": [KEY]}
    assert scrubber.json(value) is value
    assert scrubber.tree(tmp_path / "missing") == []
    assert not scrubber


def test_a_scrubber_does_not_show_what_it_hides() -> None:
    assert repr(SCRUBBER) == "Scrubber(['<ANTHROPIC_API_KEY>'])"


letters = st.text('ab1n<>"\\/é\n', min_size=8, max_size=12).filter(
    lambda text: text == text.strip() and len("".join(text.replace("\\", "").split())) >= 6
)


@given(st.lists(letters, max_size=3), st.data())
def test_no_secret_is_left_in_any_text(values: list[str], data: st.DataObject) -> None:
    scrubber = Scrubber({f"NAME_{n}": value for n, value in enumerate(values)})
    piece = st.sampled_from([*values, "a", "b", "\n", "\\"])
    text = "".join(data.draw(st.lists(piece, max_size=8)))
    scrubbed = scrubber.text(text)
    # What stands between two names was there before; a secret must not be in any such stretch.
    for n in range(len(values)):
        scrubbed = scrubbed.replace(f"<NAME_{n}>", "\0")
    assert not any(value in stretch for stretch in scrubbed.split("\0") for value in values)
    assert scrubber.text(text).encode() == _through_file(scrubber, text)


def _through_file(scrubber: Scrubber, text: str) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "file")
        path.write_bytes(text.encode())
        scrubber.file(path)
        return path.read_bytes()


def test_a_file_is_rewritten_only_when_it_holds_a_secret(tmp_path: Path) -> None:
    clean, dirty = tmp_path / "clean", tmp_path / "dirty"
    clean.write_bytes(b"\xff\x00 fine")
    dirty.write_bytes(b"\xff\x00" + KEY.encode() + b"\xfe")
    inode = clean.stat().st_ino
    assert not SCRUBBER.file(clean)
    assert SCRUBBER.file(dirty)
    assert (clean.stat().st_ino, clean.read_bytes()) == (inode, b"\xff\x00 fine")
    assert dirty.read_bytes() == b"\xff\x00<ANTHROPIC_API_KEY>\xfe"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean", "dirty"]


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o444])
def test_a_rewritten_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "script.sh"
    file.write_text(KEY)
    file.chmod(mode)
    assert SCRUBBER.file(file)
    assert file.stat().st_mode & 0o7777 == mode


def test_links_are_not_followed_and_special_files_not_opened(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "mine").write_text(KEY)
    (inside / "link").symlink_to(outside / "mine")
    (inside / "directory").symlink_to(outside)
    (inside / "dangling").symlink_to("nowhere")
    os.mkfifo(inside / "fifo")
    (inside / "empty").touch()
    assert not SCRUBBER.file(inside / "link")
    assert SCRUBBER.tree(inside) == []
    assert (outside / "mine").read_text() == KEY


def test_every_file_of_a_tree_is_scrubbed(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    for file in (tmp_path / "top", deep / ".hidden"):
        file.write_text(f"key={KEY}\n")
    assert SCRUBBER.tree(tmp_path) == []
    for file in (tmp_path / "top", deep / ".hidden"):
        assert file.read_text() == "key=<ANTHROPIC_API_KEY>\n"


def test_a_tree_names_what_could_not_be_scrubbed(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert SCRUBBER.tree(missing) == [missing]


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "AZURE_OPENAI_API_KEY",
        "openai_api_key",
        "OPENAI_APIKEY",
        "AWS_BEARER_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "MODAL_TOKEN_ID",
        "MODAL_TOKEN_SECRET",
        "HARBOR_TOKEN",
        "GITHUB_TOKEN",
        "PGPASSWORD",
        "MYSQL_PWD",
        "SSH_PASSPHRASE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "SIGNING_PRIVATE_KEY",
        "STORAGE_CONNECTION_STRING",
        "CLIENT_SECRET",
        "password",
    ],
)
def test_credentials_are_known_by_their_names(name: str) -> None:
    assert names_credential(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "PWD",
        "OLDPWD",
        "HOME",
        "AGENT_MAX_TOKENS",
        "TOKENIZERS_PARALLELISM",
        "AZURE_OPENAI_ENDPOINT",
        "OAUTH_TOKEN_URL",
        "SECRETS_DIR",
        "AWS_REGION",
        "SSH_AUTH_SOCK",
        "KEYBOARD",
        "AGENT_MODEL",
    ],
)
def test_other_variables_are_not_taken_for_credentials(name: str) -> None:
    assert not names_credential(name)


def test_secrets_are_taken_from_the_environment_and_all_of_what_is_added() -> None:
    environ = {"OPENAI_API_KEY": KEY, "HOME": "/home/me", "AGENT_MODEL": "gpt-4.1-mini"}
    assert secrets_from(environ, {"GREETING": "good morning"}) == {
        "OPENAI_API_KEY": KEY,
        "GREETING": "good morning",
    }


def test_a_url_with_a_password_is_secret_under_any_name_and_so_is_the_password() -> None:
    url = "postgres://me:s3cr%2Ft-long@db.example.com/x"
    secrets = secrets_from({"DATABASE_URL": url, "HOMEPAGE": "https://example.com/x"})
    assert secrets == {"DATABASE_URL": url, "DATABASE_URL_PASSWORD": "s3cr/t-long"}
    assert Scrubber(secrets).text(f"{url} s3cr/t-long s3cr%2Ft-long") == (
        "<DATABASE_URL> <DATABASE_URL_PASSWORD> <DATABASE_URL_PASSWORD>"
    )


def test_a_broken_url_is_no_secret_and_no_error() -> None:
    assert secrets_from({"HOMEPAGE": "http://[::1"}) == {}


def test_a_value_that_is_not_utf8_is_scrubbed_from_text_and_files(tmp_path: Path) -> None:
    value = b"sk-\xff-0123456789"
    scrubber = Scrubber({"TOKEN": os.fsdecode(value)})
    assert scrubber.text(os.fsdecode(b"a" + value)) == "a<TOKEN>"
    (tmp_path / "file").write_bytes(b"a" + value)
    scrubber.tree(tmp_path)
    assert (tmp_path / "file").read_bytes() == b"a<TOKEN>"


def test_ten_megabytes_without_a_secret_take_less_than_a_second(tmp_path: Path) -> None:
    scrubber = Scrubber({f"KEY_{n}": f"{KEY}{n}" for n in range(20)})
    text = ("the quick brown fox; sk-ant-0123 " * 31 + "\n") * 10_000
    file = tmp_path / "log"
    file.write_text(text)
    assert len(text) > 10_000_000
    started = time.process_time()
    assert scrubber.text(text) is text
    between = time.process_time()
    assert not scrubber.file(file)
    assert max(between - started, time.process_time() - between) < 1
