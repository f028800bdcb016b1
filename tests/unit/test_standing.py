"""Where a run stands, in lines of a given width."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from pytest_aecbench.host.owner import Owner
from pytest_aecbench.ledger.journal import Attempt
from pytest_aecbench.plugin.standing import Standing


def node_ids(count: int) -> list[str]:
    return [f"tasks/civil/task-{n}/task.toml::trial[oracle-1]" for n in range(count)]


def standing(
    count: int, past: float | None = None, reusable: int = 0, workers: int = 1
) -> Standing:
    return Standing(node_ids(count), lambda node_id: past, reusable=reusable, workers=workers)


def attempt(task_id: str = "civil/task-0", ago_sec: float = 0) -> Attempt:
    started_at = datetime.now(timezone.utc) - timedelta(seconds=ago_sec)
    owner = Owner("host", "boot", "1", "then")
    return Attempt(task_id, "oracle", 1, started_at, "agent", "id", "run", owner)


def test_the_time_left_is_unknown_until_something_is_known() -> None:
    assert standing(3).left_sec() is None


def test_the_time_left_comes_from_the_past_and_is_shared_by_workers() -> None:
    assert standing(4, past=30).left_sec() == pytest.approx(120)
    assert standing(4, past=30, workers=2).left_sec() == pytest.approx(60)


def test_the_time_left_is_no_less_than_what_one_trial_takes() -> None:
    assert standing(1, past=30, workers=8).left_sec() == pytest.approx(30)


def test_what_is_reused_takes_no_time() -> None:
    assert standing(4, past=30, reusable=3).left_sec() == pytest.approx(30)
    assert standing(4, past=30, reusable=4).left_sec() == 0


def test_without_a_past_the_time_left_comes_from_this_run() -> None:
    made = standing(3)
    first, second, _ = node_ids(3)
    made.begin(first)
    made.end(first, 1.0, failed=False, reused=False)
    made.begin(second)
    left = made.left_sec()
    assert left is not None
    assert left < 1


def test_rewards_and_errors_are_counted_apart() -> None:
    made = standing(4)
    for node_id, reward in zip(node_ids(4), (1.0, 0.5, None, None), strict=True):
        made.begin(node_id)
        made.end(node_id, reward, failed=reward is None, reused=False)
    assert "4 of 4 trials done, mean reward 0.75, 2 errors" in made.line()


def test_what_was_not_to_be_verified_is_no_error() -> None:
    made = standing(1)
    made.begin(node_ids(1)[0])
    made.end(node_ids(1)[0], None, failed=False, reused=False)
    assert "error" not in made.line()


@pytest.mark.parametrize("width", [19, 39, 79, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    made = standing(1234, past=5000, workers=3)
    long = attempt("civil/" + "very-" * 40 + "long", ago_sec=7384)
    lines = made.lines([long, attempt()], width, 10)
    assert len(lines) == 4
    assert all(len(line) <= width for line in lines)
    if width > 19:
        assert lines[1].endswith(" agent    2:03:04")


def test_what_does_not_fit_is_counted() -> None:
    made = standing(20, workers=8)
    lines = made.lines([attempt(f"civil/task-{n}") for n in range(8)], 79, 5)
    assert len(lines) == 5
    assert lines[-1] == "  and 5 more"
    assert "task-2[" in lines[-2]


def test_a_name_cannot_reach_the_terminal_with_more_than_letters() -> None:
    lines = standing(1).lines([attempt("civil/\x1b[2J\n")], 79, 5)
    assert "\x1b" not in lines[1]
    assert "\n" not in lines[1]


def test_the_past_is_not_read_before_the_time_left_is_asked_for() -> None:
    asked: list[str] = []
    made = Standing(node_ids(2), lambda node_id: asked.append(node_id), reusable=0, workers=1)
    made.begin(node_ids(2)[0])
    made.end(node_ids(2)[0], 1.0, failed=False, reused=False)
    assert asked == []
    made.line()
    assert asked == node_ids(2)[1:]


def test_a_line_says_how_many_trials_wait_for_a_slot() -> None:
    made = standing(3)
    made.begin(node_ids(3)[0])
    assert "1 running, longest " in made.line()
    assert "waiting" not in made.line()
    assert ", 1 of them waiting for a slot" in made.line(1)
