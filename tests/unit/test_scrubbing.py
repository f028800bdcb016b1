from __future__ import annotations

import base64
import codecs
import html
import json
import os
import reprlib
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.host.secrets import (
    ScrubbedStream,
    Scrubber,
    handed_over,
    names_credential,
    secrets_from,
)

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


def in_base64(text: str, *, columns: int = 0) -> str:
    encoded = base64.b64encode(text.encode()).decode()
    if not columns:
        return encoded
    return "\n".join(encoded[at : at + columns] for at in range(0, len(encoded), columns))


LONG_BEFORE = "the key that was found in the environment of the process is "
ENCODED = {
    "base64": in_base64(KEY),
    "base64, one byte later": in_base64(f"={KEY};"),
    "base64, two bytes later": in_base64(f"k={KEY}; and more"),
    "base64, wrapped": in_base64(LONG_BEFORE + KEY + LONG_BEFORE, columns=76),
    "base64, wrapped and indented": in_base64(f"{LONG_BEFORE}{KEY}", columns=64).replace(
        "\n", "\r\n    "
    ),
    "base64, wrapped in JSON": json.dumps(in_base64(f"{LONG_BEFORE}{KEY}", columns=76)),
    "base64, wrapped in JSON in JSON": json.dumps(
        json.dumps({"a": in_base64(f"{LONG_BEFORE}{KEY}", columns=76)})
    ),
    "base64 for URLs": base64.urlsafe_b64encode(f"??{KEY}>>".encode()).decode(),
    "hex": KEY.encode().hex(),
    "hex, upper case": KEY.encode().hex().upper(),
    "hex, in columns": KEY.encode().hex(" ", 2),
    "hex, wrapped": "\n".join(KEY.encode().hex()[at : at + 20] for at in range(0, 46, 20)),
    "URL, all quoted": "".join(f"%{byte:02X}" for byte in KEY.encode()),
    "escaped bytes": "".join(f"\\x{byte:02x}" for byte in KEY.encode()),
    "JSON, all escaped": "".join(f"\\u{ord(char):04X}" for char in KEY),
    "upper case": KEY.upper(),
    "mixed case": KEY.title(),
    "reversed": KEY[::-1],
    "reversed, upper case": KEY[::-1].upper(),
    "wrapped": f"{KEY[:9]}\n{KEY[9:]}",
    "wrapped and indented": f"{KEY[:9]}\r\n\t    {KEY[9:]}",
    "wrapped by a shell": f"{KEY[:9]}\\\n{KEY[9:]}",
    "spaced": " ".join(KEY),
}


@pytest.mark.parametrize("written", ENCODED.values(), ids=ENCODED)
@pytest.mark.parametrize("around", ["", "=", "x"])
def test_a_secret_is_found_in_the_usual_encodings(
    written: str, around: str, tmp_path: Path
) -> None:
    clean = SCRUBBER.text(f"{around}{written}{around}")
    assert "<ANTHROPIC_API_KEY>" in clean
    # What is left is what was encoded before and after the key.
    before, after = clean.split("<ANTHROPIC_API_KEY>")
    assert len(written) - len(before) - len(after) >= len(KEY) - 2
    file = tmp_path / "file"
    file.write_bytes(f"{around}{written}{around}".encode())
    assert SCRUBBER.file(file)
    assert file.read_bytes() == clean.encode()


def test_a_secret_that_is_not_ascii_is_found_in_other_encodings(tmp_path: Path) -> None:
    scrubber = Scrubber({"PASSWORD": AWKWARD})
    for written in (
        html.escape(AWKWARD).encode(),
        json.dumps(AWKWARD).replace("&", "\\u0026").encode(),
        AWKWARD.encode("latin-1"),
        repr(AWKWARD.encode()).encode(),
        base64.encodebytes(AWKWARD.encode()),
    ):
        (tmp_path / "file").write_bytes(b"<" + written + b">")
        assert scrubber.file(tmp_path / "file"), written


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_secret_is_found_in_files_of_wide_characters(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "file").write_bytes(codecs.BOM_UTF16 + f"a {KEY} b".encode(encoding))
    assert SCRUBBER.file(tmp_path / "file")
    assert b"s\0k\0-\0" not in (tmp_path / "file").read_bytes()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("theother", "the other"),
        ("12345678", "1234 5678\n1\n2\n3\n4\n5\n6\n7\n8"),
        ("a1b2c3", "a1 b2 c3"),
        (KEY, "keys look like sk-ant-... or sk-ant-0123...; set ANTHROPIC_API_KEY"),
        (KEY, "sk-ant-0123456789abcde"),
        (KEY * 2, "sk-ant-0123456"),
    ],
)
def test_ordinary_text_is_not_taken_for_a_secret(value: str, text: str) -> None:
    scrubber = Scrubber({"TOKEN": value})
    assert scrubber
    assert scrubber.text(text) == text


def test_a_short_secret_needs_letters_and_digits() -> None:
    assert Scrubber({"TOKEN": "tok-42"}).text("token tok-42.") == "token <TOKEN>."
    assert Scrubber({"TOKEN": "tok-42"}).text("TOK-42") == "<TOKEN>"
    assert not Scrubber({"PIN": "471147", "TOKEN": "abc42", "DB_PASSWORD": "letmein"})


TOKEN = "sk-proj-Zq81LmXv03Tn52RbKc94Hd67Wf20Gy15Js38Pu76"


@pytest.mark.parametrize("size", [31, 36, 47])
def test_a_large_part_of_a_long_token_is_replaced_wherever_it_was_cut(size: int) -> None:
    scrubber = Scrubber({"API_KEY": TOKEN})
    for start in range(len(TOKEN) - size + 1):
        part = TOKEN[start : start + size]
        assert scrubber.text(f"1: {part}|") == "1: <API_KEY>|"
    assert scrubber.text(TOKEN[:24] + " and then " + TOKEN[24:]) == "<API_KEY> and then <API_KEY>"


def test_a_secret_that_a_message_shortens_is_not_left_in_parts() -> None:
    scrubber = Scrubber({"API_KEY": TOKEN})
    assert scrubber.text(f"{reprlib.repr(TOKEN)} is not a number") == (
        "'<API_KEY>...<API_KEY>' is not a number"
    )
    assert scrubber.text(f"{TOKEN[:30]}...") == "<API_KEY>..."
    assert scrubber.text(f"...{TOKEN[-10:]}'") == "...<API_KEY>'"


@pytest.mark.parametrize("unit", ["bytes", "characters"])
def test_encoded_secrets_are_not_left_in_parts_by_cuts(unit: str) -> None:
    cut = f"\n[9 {unit} left out]\n"
    encoded = in_base64(KEY)
    assert SCRUBBER.text(f"x {encoded[:20]}{cut}{encoded[-22:-4]}") == (
        f"x <ANTHROPIC_API_KEY>{cut}{encoded[-22:-4]}"
    )
    assert SCRUBBER.text(f"{KEY[:9]}\n{KEY[9:15]}\n{cut}{KEY[-8:]}!") == (
        f"<ANTHROPIC_API_KEY>\n{cut}<ANTHROPIC_API_KEY>!"
    )


@pytest.mark.parametrize("shift", [0, 1, 7, 40, 5000])
def test_a_secret_across_the_windows_of_the_search_is_found(tmp_path: Path, shift: int) -> None:
    file = tmp_path / "large"
    written = in_base64(f"{LONG_BEFORE}{KEY}", columns=76).encode()
    file.write_bytes(b"." * ((1 << 20) - shift) + written + b"." * (1 << 20) + KEY.encode())
    assert SCRUBBER.file(file)
    assert file.read_bytes().count(b"<ANTHROPIC_API_KEY>") == 2


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


def test_keys_that_only_differed_in_secrets_stay_apart() -> None:
    details = {KEY: 1, KEY.upper(): 2, in_base64(KEY): 3}
    names = ["<ANTHROPIC_API_KEY>", "<ANTHROPIC_API_KEY>-2"]
    clean = SCRUBBER.json(details)
    assert list(clean)[:2] == names
    assert list(clean.values()) == [1, 2, 3]


def test_a_secret_is_found_across_the_values_and_across_the_keys_of_json() -> None:
    spread = {"a": KEY[:9], "b": [KEY[9:15], {"c": KEY[15:]}], "d": "fine"}
    label = "<ANTHROPIC_API_KEY>"
    assert SCRUBBER.json(spread) == {"a": label, "b": [label, {"c": label}], "d": "fine"}
    assert [*SCRUBBER.json({KEY[:9]: 1, KEY[9:]: 2}).values()] == [1, 2]
    assert KEY[9:] not in SCRUBBER.json({KEY[:9]: 1, KEY[9:]: 2})


def test_halves_of_characters_do_not_stop_the_search() -> None:
    assert SCRUBBER.text(f"\ud83d{KEY}\udcff") == "\ud83d<ANTHROPIC_API_KEY>\udcff"


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


WITHOUT_SPACE = """
import pathlib, resource, signal, sys
from pytest_aecbench.host.secrets import Scrubber
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
assert Scrubber({"TOKEN": sys.argv[2]}).file(pathlib.Path(sys.argv[1]))
"""


def test_a_secret_is_blanked_if_there_is_no_space_for_a_copy(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_text(f"one {KEY} two" + "." * 2000)
    subprocess.run([sys.executable, "-c", WITHOUT_SPACE, file, KEY], check=True)
    assert file.read_text() == f"one {'*' * len(KEY)} two" + "." * 2000
    assert [path.name for path in tmp_path.iterdir()] == ["large"]


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


def names_below(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


def test_names_of_files_and_directories_are_scrubbed(tmp_path: Path) -> None:
    deep = tmp_path / f"a-{KEY}" / KEY.upper()
    deep.mkdir(parents=True)
    (deep / f"{in_base64(KEY)}.txt").write_text(KEY)
    (deep / "fine").touch()
    assert SCRUBBER.tree(tmp_path) == []
    label = "<ANTHROPIC_API_KEY>"
    below = f"a-{label}/{label}"
    (file,) = (name for name in names_below(tmp_path) if name.endswith(".txt"))
    assert file.startswith(f"{below}/{label}")
    assert names_below(tmp_path) == [f"a-{label}", below, file, f"{below}/fine"]
    assert (tmp_path / file).read_text() == label


def test_names_that_only_differed_in_secrets_stay_apart(tmp_path: Path) -> None:
    label = "<ANTHROPIC_API_KEY>"
    for name in (KEY, KEY.upper(), KEY[::-1], f"{label}-2"):
        (tmp_path / name).write_text(name)
    assert SCRUBBER.tree(tmp_path) == []
    assert names_below(tmp_path) == [label, f"{label}-2", f"{label}-3", f"{label}-4"]
    assert (tmp_path / f"{label}-2").read_text() == f"{label}-2"


def test_targets_of_links_are_scrubbed(tmp_path: Path) -> None:
    (tmp_path / KEY).write_text("found")
    (tmp_path / "here").symlink_to(KEY)
    (tmp_path / "nowhere").symlink_to(f"/nowhere/{KEY.encode().hex()}")
    (tmp_path / "fine").symlink_to("/nowhere/else")
    assert SCRUBBER.tree(tmp_path) == []
    assert (tmp_path / "here").read_text() == "found"
    assert (tmp_path / "nowhere").readlink() == Path("/nowhere/<ANTHROPIC_API_KEY>")
    assert (tmp_path / "fine").readlink() == Path("/nowhere/else")


def test_a_secret_with_slashes_is_scrubbed_from_a_path(tmp_path: Path) -> None:
    value = "abc12/defgh34/ijk56"
    (tmp_path / "x" / value).mkdir(parents=True)
    assert Scrubber({"API_KEY": value}).tree(tmp_path) == []
    names = ["x", "x/<API_KEY>", "x/<API_KEY>/<API_KEY>", "x/<API_KEY>/<API_KEY>/<API_KEY>"]
    assert names_below(tmp_path) == names


def test_a_name_that_would_become_too_long_is_cut(tmp_path: Path) -> None:
    scrubber = Scrubber({"A_SECRET_WITH_A_VERY_LONG_NAME_INDEED": "tok-42"})
    (tmp_path / ("tok-42" * 42)).touch()
    assert scrubber.tree(tmp_path) == []
    (name,) = names_below(tmp_path)
    assert "tok-42" not in name


def test_names_that_are_not_utf8_are_scrubbed(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff" + KEY.encode())).touch()
    assert SCRUBBER.tree(tmp_path) == []
    assert [os.fsencode(path.name) for path in tmp_path.iterdir()] == [b"\xff<ANTHROPIC_API_KEY>"]


def test_files_and_directories_that_are_closed_to_their_owner_are_scrubbed_too(
    tmp_path: Path,
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "file").write_text(KEY)
    (closed / "file").chmod(0)
    closed.chmod(0o500)
    assert SCRUBBER.tree(tmp_path) == []
    assert (closed / "file").read_text() == "<ANTHROPIC_API_KEY>"
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert stat.S_IMODE((closed / "file").stat().st_mode) == 0o400


@given(st.data())
def test_no_secret_is_left_in_a_stream_however_it_is_cut(data: st.DataObject) -> None:
    piece = st.sampled_from([KEY, KEY[:9], KEY[9:], in_base64(KEY), KEY.upper(), "a", "s", "\n"])
    text = "".join(data.draw(st.lists(piece, max_size=12)))
    stream, shown, rest = ScrubbedStream(SCRUBBER), b"", text.encode()
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown += stream.feed(rest[:size])
        rest = rest[size:]
    shown += stream.end()
    left = shown.decode().split("<ANTHROPIC_API_KEY>")
    assert not any(SCRUBBER.text(stretch) != stretch for stretch in left)
    if SCRUBBER.text(text) == text:
        assert shown.decode() == text


def test_a_stream_holds_back_only_a_line_in_which_a_secret_could_have_begun() -> None:
    stream = ScrubbedStream(SCRUBBER)
    assert stream.feed(b"one\ntwo sk-\n") == b"one\ntwo sk-\n"
    assert stream.feed(b"three\nfour sk-ant\n") == b"three\n"
    assert stream.feed(b"five\n") == b"four sk-ant\nfive\n"
    assert stream.feed(b"six sk-ant-\n") == b""
    assert stream.feed(b"0123456789abcdef\n") == b"six <ANTHROPIC_API_KEY>\n"
    assert stream.feed(b"seven sk-\n") == b"seven sk-\n"
    assert stream.feed(b"ant-0123456789abcdef\n") == b"<ANTHROPIC_API_KEY>\n"
    assert stream.feed(b"sk-ant" + b"\n" * 20_000).startswith(b"sk-ant\n")
    assert stream.end() == b""


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


def test_variables_that_a_file_hands_over_are_secret_whatever_their_names() -> None:
    environ = {
        "GREETING": "hello-from-4711",
        "PHRASE": "correcthorsebattery",
        "SIZE": "1",
        "SWITCH": "true",
        "METHOD": "verification",
        "TODAY": "2026-04-12",
        "AWS_REGION": "ap-southeast-2",
        "MODAL_TOKEN_ID": "ak-12345678",
        "OTHER": "not-handed-over-1",
    }
    names = {*environ, "NOT_SET"} - {"OTHER"}
    assert set(handed_over(names, environ)) == {"GREETING", "PHRASE", "MODAL_TOKEN_ID"}


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
