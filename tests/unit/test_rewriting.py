"""The sandbox's paths are rewritten where they are paths of their own, and nowhere else."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.backends.local.rewriting import Rewriter

rewrite = Rewriter(
    {
        PurePosixPath("/workspace"): Path("/H/w"),
        PurePosixPath("/app"): Path("/H/w"),
        PurePosixPath("/tests"): Path("/H/t"),
        PurePosixPath("/logs"): Path("/H/l"),
        PurePosixPath("/app/nested"): Path("/H/n"),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/tests", "/H/t"),
        ("bash /tests/test.sh", "bash /H/t/test.sh"),
        ('cat "/tests"', 'cat "/H/t"'),
        ("cat '/tests/a b'", "cat '/H/t/a b'"),
        ("x=/workspace", "x=/H/w"),
        ("PATH=/bin:/workspace/bin", "PATH=/bin:/H/w/bin"),
        ("echo>/workspace/out", "echo>/H/w/out"),
        ("(/tests/a;/tests/b)", "(/H/t/a;/H/t/b)"),
        ("$(</workspace/x)", "$(</H/w/x)"),
        ("${OUT:-/workspace/out}", "${OUT:-/H/w/out}"),
        ("${file#/workspace/}", "${file#/H/w/}"),
        ("curl -F f=@/workspace/x", "curl -F f=@/H/w/x"),
        ("gcc -I/workspace/include", "gcc -I/H/w/include"),
        ("file:///workspace/x", "file:///H/w/x"),
        ("#!/workspace/bin/tool", "#!/H/w/bin/tool"),
        ('open(f"/logs/{name}")', 'open(f"/H/l/{name}")'),
        ("Path(r'/tests')", "Path(r'/H/t')"),
        ('["/tests","/logs"]', '["/H/t","/H/l"]'),
        ("Write to /workspace.", "Write to /H/w."),
        ("Is it in /workspace, or not?", "Is it in /H/w, or not?"),
        ("/workspace/tests/x", "/H/w/tests/x"),
        ("/app/x /app/nested/x", "/H/w/x /H/n/x"),
        ("re.match('^/workspace/')", "re.match('^/H/w/')"),
    ],
)
def test_a_path_of_its_own_is_rewritten(text: str, expected: str) -> None:
    assert rewrite(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/mytests",
        "/my/tests",
        "https://x/tests",
        "https://example.com/workspace/logs",
        "./tests",
        "../tests/x",
        "~/workspace",
        "$HOME/tests",
        "${HOME}/tests",
        '"$HOME"/tests',
        '"${HOME}"/tests',
        "$(pwd)/tests",
        "*/tests",
        "${dir%/tests}",
        "a/tests",
        "/tests2",
        "/tests_x",
        "/tests-old",
        "/tests.py",
        "/application",
        '{"$ref": "#/tests"}',
    ],
)
def test_what_only_looks_like_one_is_left_alone(text: str) -> None:
    assert rewrite(text) == text


@given(st.text())
def test_text_without_these_paths_is_left_alone(text: str) -> None:
    if not any(path in text for path in ("/workspace", "/app", "/tests", "/logs")):
        assert rewrite(text) == text


@given(st.lists(st.sampled_from([" ", "\n", "=", "x", "/", '"', "/tests", "/app", "/H/t"])))
def test_rewriting_twice_is_rewriting_once(parts: list[str]) -> None:
    once = rewrite("".join(parts))
    assert rewrite(once) == once
