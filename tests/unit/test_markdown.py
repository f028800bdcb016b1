from __future__ import annotations

import html
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.reports.gate_parser import parse_gate
from pytest_aecbench.reports.gates import Verdict
from pytest_aecbench.reports.markdown import MAX_CHARS, markdown_summary
from pytest_aecbench.reports.results import TrialResult
from tests.unit.test_statistics import a_result

CODE = re.compile(r"`[^`\n|\\]+`|<code>(?:[^\W_]| |&#\d+;|<!-- -->)*</code>")


def summary(*results: TrialResult, **changes: Any) -> str:
    return markdown_summary(results, **{"experiment_id": "exp-1", "wall_sec": 75.0, **changes})


def table(text: str, first: str = "agent", second: str = "trials") -> list[dict[str, str]]:
    """Return the rows of the table whose head starts with two columns."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} | {second} |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    head, rule, *body = rows
    assert set(rule) == {"---"}
    return [dict(zip(head, row, strict=True)) for row in body]


def listed(text: str, title: str) -> list[str]:
    """Return the points of the list under a title."""
    _, found, rest = text.partition(f"### {title}")
    assert found, text
    return [line for line in rest.split("\n\n")[1].splitlines() if line.startswith("- ")]


def shown(code: str) -> str:
    """Return what a reader sees of a piece of code."""
    if code.startswith("`"):
        return code.strip("`")
    inner = code.removeprefix("<code>").removesuffix("</code>")
    return html.unescape(inner.replace("<!-- -->", ""))


def test_the_headline_names_the_experiment_and_counts() -> None:
    text = summary(a_result(), a_result(None, task_id="b"))
    assert text.startswith(
        "<!-- aec-bench -->\n## aec: `exp-1`\n\ntrials 2, errors 1, wall time 1 min 15 s\n"
    )
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize(("needed", "word"), [("0.5", "passed"), ("0.9", "failed")])
def test_the_headline_says_whether_the_gate_was_passed_and_why(needed: str, word: str) -> None:
    results = [a_result(0.5)]
    verdict = parse_gate(f"mean>={needed} or trials>5", "x").judge(results)
    text = summary(*results, verdict=verdict)
    assert text.startswith(f"<!-- aec-bench -->\n## aec: `exp-1`: gate {word}\n")
    assert verdict.lines[1] == "trials = 1 (scored, of 1), needs > 5: does not hold"
    for line in verdict.lines:
        assert f"\n- `{line}`\n" in text


def test_a_row_per_agent_the_best_first() -> None:
    text = summary(
        a_result(0.0, agent="nop"),
        a_result(1.0, tokens_in=1200, tokens_out=34, usd=0.125),
        a_result(0.5, task_id="b", tokens_in=34),
        a_result(None, task_id="c"),
    )
    best, worst = table(text)
    assert best == {
        "agent": "`oracle`",
        "trials": "3",
        "errors": "1",
        "reward": "0.75",
        "95 % interval": "0.11 to 0.99",
        "SE": "0.25",
        "pass@1": "0.50",
        "scored tasks": "2 of 3",
        "errors as zeros": "0.50",
        "tokens in": "1,234 (known for 2 of 3)",
        "tokens out": "34 (known for 1 of 3)",
        "USD": "0.12 (known for 1 of 3)",
        "trial time": "30.0 s",
    }
    assert worst["agent"] == "`nop`"
    assert (worst["reward"], worst["95 % interval"], worst["USD"]) == ("0.00", "0.00 to 0.97", "-")
    assert (worst["SE"], worst["errors as zeros"]) == ("-", "-")


def test_repetitions_add_pass_at_k_and_pass_hat_k() -> None:
    twice = [a_result(reward, repetition=n) for n, reward in enumerate((1.0, 0.0), start=1)]
    thrice = [a_result(1.0, agent="other", repetition=n) for n in (1, 2, 3)]
    other, oracle = table(summary(*twice, *thrice))
    assert (oracle["pass@2"], oracle["pass^2"]) == ("1.00", "0.00")
    assert (oracle["pass@3"], oracle["pass^3"]) == ("-", "-")
    assert (other["pass@2"], other["pass@3"], other["pass^3"]) == ("-", "1.00", "1.00")


def test_pass_at_k_says_for_how_many_tasks_it_holds() -> None:
    [row] = table(
        summary(
            *(a_result(1.0, repetition=n) for n in (1, 2)),
            a_result(1.0, task_id="b", repetition=1),
            a_result(None, task_id="b", repetition=2),
        )
    )
    assert (row["pass@2"], row["pass^2"]) == ("1.00 (1 of 2 tasks)", "1.00 (1 of 2 tasks)")


def test_domains_and_difficulties_are_folded_away() -> None:
    text = summary(a_result(1.0), a_result(0.0, task_id="b", domain="civil", difficulty="hard"))
    for what, names in {"domain": ["civil", "electrical"], "difficulty": ["easy", "hard"]}.items():
        opening = f"\n\n<details><summary>By {what}</summary>\n\n| agent | {what} |"
        folded = text[text.index(opening) : text.index("\n\n</details>\n", text.index(opening))]
        rows = table(folded, "agent", what)
        assert [row[what] for row in rows] == [f"`{name}`" for name in names]
        assert [row["trials"] for row in rows] == ["1", "1"]


def test_failed_trials_are_listed_from_the_lowest_reward() -> None:
    text = summary(
        a_result(0.5, task_id="b"),
        a_result(1.0, task_id="fine"),
        a_result(0.123456, task_id="c", repetition=2),
        a_result(0.5, task_id="a"),
        a_result(None, task_id="broken"),
    )
    assert listed(text, "Failed, lowest rewards first: 3") == [
        "- `c[oracle-2]` reward 0.1235",
        "- `a[oracle-1]` reward 0.5",
        "- `b[oracle-1]` reward 0.5",
    ]


def test_errors_are_listed_with_their_cause() -> None:
    text = summary(
        a_result(None, task_id="b", error_cause="build"),
        a_result(None, task_id="a", attempt=1, error_cause="launch"),
        a_result(None, task_id="a", attempt=2, error_cause="sandbox_gone"),
        a_result(None, task_id="retried", attempt=1),
        a_result(1.0, task_id="retried", attempt=2),
        a_result(None, task_id="unverified", error_cause=None),
    )
    assert listed(text, "Errors, not scored: 2") == [
        "- `a[oracle-1]` `sandbox_gone`",
        "- `b[oracle-1]` `build`",
    ]


@pytest.mark.parametrize(
    ("reward", "title"), [(0.0, "Failed, lowest rewards first"), (None, "Errors, not scored")]
)
@pytest.mark.parametrize(("count", "last"), [(20, "19"), (21, "- and 1 more"), (500, "- and 480")])
def test_at_most_twenty_trials_are_listed(
    reward: float | None, title: str, count: int, last: str
) -> None:
    text = summary(*(a_result(reward, task_id=f"{n:03}") for n in range(count)))
    points = listed(text, f"{title}: {count}")
    assert len(points) == min(count, 21)
    assert last in points[-1]
    assert "`019[oracle-1]`" in points[19]


def test_what_did_not_happen_has_no_list() -> None:
    text = summary(a_result(1.0))
    assert "###" not in text


def test_held_out_tasks_are_counted_and_not_named() -> None:
    hidden = {"domain": "hidden", "difficulty": "secret", "visibility": "holdout"}
    results = [
        a_result(1.0),
        a_result(0.0, task_id="hidden/a", **hidden),
        a_result(None, task_id="hidden/b", error_cause="secret", **hidden),
    ]
    text = summary(*results)
    assert "trials 1, errors 0, held-out trials 2 (not shown), wall time" in text
    assert "hidden" not in text
    assert "secret" not in text
    [row] = table(text)
    assert (row["trials"], row["errors"], row["reward"]) == ("1", "0", "1.00")


def test_a_run_of_held_out_tasks_alone_has_no_empty_tables() -> None:
    text = summary(a_result(0.0, visibility="holdout"))
    assert [row["trials"] for row in table(text)] == ["0"]
    assert "<details>" not in text


def test_a_run_without_trials_says_so() -> None:
    assert (
        summary()
        == "<!-- aec-bench -->\n## aec: `exp-1`\n\ntrials 0, errors 0, wall time 1 min 15 s\n"
    )


def hostile(name: str) -> str:
    """Return a summary in which the name is everywhere a name can be."""
    names = {"agent": name, "domain": name, "difficulty": name or "x"}
    return summary(
        a_result(0.5, task_id=f"1{name}", **names),
        a_result(None, task_id=f"2{name}", error_cause=name, **names),
        experiment_id=name,
        verdict=Verdict(passed=False, lines=(name,)),
    )


HARMLESS = CODE.sub("X", hostile("name"))


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "a\\|b",
        "\\",
        "`",
        "a``b`",
        "line\nbreak",
        "para\n\n# graph",
        "carriage\rreturn",
        "</details><script>alert(1)</script>",
        "<!-- -->",
        "--> x",
        "`</code>@bob|<img src=x>",
        "@bob",
        "a@b.example",
        "`a@b.example www.example.com https://example.com",
        "&#124;&lt;",
        "[link](https://example.com)",
        "*bold* _it_ ~no~ $x$ #1",
        "",
        " ",
        "\x1b[31m\x00\u2028\u202e",
        "\udcff",
        "é ü 橋",
    ],
)
def test_names_are_shown_as_they_are_and_change_nothing_around_them(name: str) -> None:
    assert_inert(name)


@given(st.text() | st.text("`|\\<>@&\n a"))
def test_no_name_changes_anything_around_it(name: str) -> None:
    assert_inert(name)


def assert_inert(name: str) -> None:
    text = hostile(name)
    assert CODE.sub("X", text) == HARMLESS
    seen = "".join(char if char.isprintable() else "\ufffd" for char in name)
    assert shown(table(text)[0]["agent"]) == seen
    assert shown(CODE.findall(listed(text, "Failed, lowest rewards first")[0])[0]) == (
        f"1{seen}[{seen}-1]"
    )
    assert text.encode()
    # Outside code spans there is no mention and no address to make a link of.
    assert "@" not in re.sub(r"`[^`]*`|pass@1", "", text)


def test_a_summary_that_github_would_not_take_leaves_out_the_longest_lists() -> None:
    names = [f"{number:04}-{'x' * 60}" for number in range(600)]
    text = summary(*(a_result(task_id=name, domain=name) for name in names))
    assert len(text) <= MAX_CHARS
    assert "Left out, because the summary would be too long: 602 lines." in text
    assert text.startswith("<!-- aec-bench -->\n## aec: `exp-1`\n")
    assert "trials 600, errors 0" in text
