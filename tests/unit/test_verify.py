"""Verifiers built on verify.py: fair to every answer, and brought down by none."""

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_aecbench import verify as module
from pytest_aecbench.verify import (
    Between,
    Choice,
    Entries,
    Field,
    Flag,
    Items,
    Number,
    Unusable,
    Verdict,
    convert,
    grade,
    read_answer,
    verify,
)

SOURCE = Path(module.__file__)
FIELDS: Mapping[str, Field] = {
    "current_a": Number(2.0, rel=0.01, unit="A"),
    "safe": Flag(True, needs="current_a"),
    "class": Choice("C2", ["C1", "C2", "C3"]),
    "rooms": Items(["kitchen", "hall"], partial=True),
}
RIGHT = {"current_a": 2.0, "safe": True, "class": "C2", "rooms": ["hall", "kitchen"]}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12)


def score(field: Field, value: object) -> float:
    return field.judge(value).score


class Workshop:
    """A workspace to write an answer to, and where its reward is written."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.logs = root / "workspace", root / "logs"
        self.workspace.mkdir()
        self.output = self.workspace / "output.jsonl"

    def verify(self, content: str | bytes | None = None) -> dict[str, Any]:
        """Verify, with ``content`` as the output; return the details and the reward."""
        if content is not None:
            self.output.write_bytes(content if isinstance(content, bytes) else content.encode())
        earned = verify(FIELDS, "output.jsonl", workspace=str(self.workspace), logs=str(self.logs))
        written = json.loads((self.logs / "reward.json").read_text())
        assert written["reward"] == earned
        assert {path.name for path in self.logs.iterdir()} == {"details.json", "reward.json"}
        return {**json.loads((self.logs / "details.json").read_text()), **written}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


# Where an answer is found


def test_the_right_answer_earns_all(workshop: Workshop) -> None:
    assert workshop.verify(json.dumps(RIGHT))["reward"] == 1


@pytest.mark.parametrize(
    "layout",
    [
        "{}",
        "\ufeff{}\r\n",
        '{{"current_a": 9}}\n{}\n\n',
        "Here it is:\n```json\n{}\n```\nHope this helps.\n",
        "```\n{}\n```",
        "~~~~ jsonl title\n{{}}\n{}\n~~~~",
        '```json\n{{"current_a": 9}}\n```\nNo, wait:\n```json\n{}\n```',
        "```json\n{}\n```\nrun it with\n```bash\necho\n```\n```\nlog\n```\n",
        "The answer is\n{}\n",
        "````json\n{}\n````",
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_the_last_json_block_is_the_answer(
    workshop: Workshop, layout: str, indent: int | None
) -> None:
    assert workshop.verify(layout.format(json.dumps(RIGHT, indent=indent)))["reward"] == 1


def test_a_fence_in_a_text_of_the_answer_is_none(workshop: Workshop) -> None:
    answer = {**RIGHT, "note": 'so:\n```json\n{"current_a": 1}\n```\n'}
    assert workshop.verify(json.dumps(answer))["reward"] == 1


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))


def link(target: str, path: Path) -> None:
    path.symlink_to(target)


def link_to_a_right_answer(path: Path) -> None:
    elsewhere = path.parents[1] / "right.json"
    elsewhere.write_text(json.dumps(RIGHT))
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "make",
    [
        Path.mkdir,
        fifo,
        bound_socket,
        link_to_a_right_answer,
        partial(link, "nowhere"),
        partial(link, "output.jsonl"),
        partial(link, "/dev/zero"),
    ],
)
def test_what_is_no_plain_file_earns_nothing_and_blocks_nothing(
    workshop: Workshop, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workshop.workspace)
    make(workshop.output)
    result = workshop.verify()
    assert result["reward"] == 0
    assert result["problem"].endswith("is not a regular file")


@pytest.mark.parametrize("target", ["..", "../../..", "/", "loop"])
def test_a_directory_that_leads_out_of_the_workspace_is_not_entered(
    workshop: Workshop, target: str
) -> None:
    (workshop.workspace.parent / "answer.json").write_text("{}")
    (workshop.workspace / "loop").symlink_to(target)
    with pytest.raises(Unusable):
        read_answer("loop/answer.json", str(workshop.workspace))


@pytest.mark.parametrize("output", ["/etc/passwd", "../output.jsonl", "a/../../b", ".", ""])
def test_an_output_outside_the_workspace_is_the_verifiers_mistake(
    workshop: Workshop, output: str
) -> None:
    with pytest.raises(ValueError, match="is not below"):
        read_answer(output, str(workshop.workspace))


def test_a_workspace_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/output.jsonl").write_text("{}")
    (tmp_path / "link").symlink_to("real")
    assert read_answer(f"{tmp_path}/link/output.jsonl", f"{tmp_path}/link") == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "does not exist"),
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (bytes(range(256)), "is not UTF-8"),
        (json.dumps(RIGHT).encode("utf-16"), "is not UTF-8"),
        (b"\0" * 100, "does not end in a JSON object"),
        (json.dumps(RIGHT).encode() + b" " * 50_000_000, "is larger than"),
        (b"[" * 100_000, "is nested too deep"),
        (b'{"a":' * 100_000, "is nested too deep"),
        (json.dumps([RIGHT]).encode(), "holds a list, must hold a JSON object"),
        (b"null", "holds null"),
        (json.dumps(RIGHT)[:-1].encode(), "does not end in a JSON object"),
        (b'{"safe": true, "safe": true}', "a key occurs twice"),
        (b'```json\n{"current_a": 2},\n', "does not end in a JSON object"),
        (b"```json\n```", "does not end in a JSON object"),
        # Each of these takes for ever where a reader goes back and forth.
        (b"~~~a\n" * 200_000, "does not end in a JSON object"),
        (b'{"a":[1,\n' * 100_000, "is nested too deep"),
        (b"{\n" * 400_000, "does not end in a JSON object"),
    ],
)
def test_an_unusable_file_earns_nothing_and_says_why(
    workshop: Workshop, content: bytes | None, problem: str
) -> None:
    result = workshop.verify(content)
    assert result["reward"] == 0
    assert problem in result["problem"]
    assert {field["error"] for field in result["fields"].values()} == {"missing"}


def test_no_directory_for_the_file_is_no_file(workshop: Workshop) -> None:
    (workshop.workspace / "file").touch()
    for path in ("no/such/output.jsonl", "file/output.jsonl"):
        with pytest.raises(Unusable, match="does not exist"):
            read_answer(path, str(workshop.workspace))


@given(st.binary())
def test_any_bytes_are_an_answer_or_a_reason(tmp_path_factory: Any, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    path.write_bytes(data)
    reason = None
    try:
        assert isinstance(read_answer(path.name, str(path.parent)), dict)
    except Unusable as error:
        reason = str(error)
    assert reason is None or (reason.startswith(str(path)) and len(reason) < 500)


@given(st.dictionaries(st.sampled_from([*FIELDS, "note"]), json_values))
@example({"rooms": [[[]]] * 10_000})
@example({"current_a": int("9" * 400)})
@example({"current_a": {"value": math.inf, "unit": "kA"}})
def test_any_answer_has_a_grade_that_can_be_written(answer: dict[str, object]) -> None:
    result = grade(FIELDS, answer)
    assert 0 <= result.reward <= 1
    json.dumps(result._asdict(), allow_nan=False)
    for name, earned in result.scores.items():
        assert (earned == 1) == (result.details[name]["error"] is None)


# Fields


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Number(1), True),
        (Number(0), False),
        (Number(1), "1"),
        (Number(1, unit="V"), "1"),
        (Number(1), None),
        (Number(1), [1]),
        (Flag(True), 1),
        (Flag(False), 0),
        (Flag(True), "true"),
        (Choice("1", ["1"]), 1),
        (Items([1]), 1),
        (Items(["ab"]), "ab"),
    ],
)
def test_equal_values_of_another_type_are_wrong(field: Field, value: object) -> None:
    verdict = field.judge(value)
    assert verdict.score == 0
    assert "must be" in str(verdict.fault)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, int("9" * 400)])
@pytest.mark.parametrize("field", [Number(1, abs=1e300), Between(-1e300, 1e300)])
def test_what_is_not_finite_is_wrong_within_any_tolerance(field: Field, value: float) -> None:
    assert score(field, value) == 0


def test_values_that_json_cannot_hold_cost_their_own_field_alone(workshop: Workshop) -> None:
    text = json.dumps({**RIGHT, "current_a": 0})
    for value in ("NaN", "-Infinity", "1e999", "9" * 10_000):
        result = workshop.verify(text.replace('"current_a": 0', f'"current_a": {value}'))
        assert result["problem"] is None
        assert (result["current_a"], result["class"], result["rooms"]) == (0, 1, 1)


@given(numbers, st.floats(0.0001, 0.5))
def test_a_relative_tolerance_holds_to_its_edge_and_no_further(expected: float, rel: float) -> None:
    if abs(expected) < 1e-300:
        return
    field = Number(expected, rel=rel)
    for sign in (1, -1):
        assert score(field, expected * (1 + sign * rel * 0.999)) == 1
        assert score(field, expected * (1 + sign * rel * 1.001)) == 0


def test_tolerances_are_as_written_in_decimals() -> None:
    assert score(Number(0.3, abs=0.1), 0.4) == 1
    assert score(Number(0.3, abs=0.1), 0.2) == 1
    assert score(Number(100, rel=0.001), 100.1) == 1
    assert score(Number(1e15), 1e15 + 10_000) == 0


def test_the_wider_of_two_tolerances_counts() -> None:
    field = Number(10, rel=0.01, abs=0.5)
    assert [score(field, value) for value in (10.4, 9.5, 10.6)] == [1, 1, 0]
    assert field.tolerance == "±1 % or ±0.5"
    assert score(Number(0, rel=0.01, abs=0.5), 0.5) == 1  # one that happens to come to nothing


def test_near_misses_earn_half_where_asked_for() -> None:
    field = Number(100, rel=0.01, near=5)
    assert [score(field, value) for value in (101, 104, 95.5, 106)] == [1, 0.5, 0.5, 0]


def test_both_ends_of_a_range_belong_to_it() -> None:
    field = Between(0.1, 0.3, unit="m")
    given = (0.1, 0.3, "300 mm", 0.1 + 0.2, 0.09, "301 mm")
    assert [score(field, value) for value in given] == [1, 1, 1, 1, 0, 0]


def test_a_choice_tells_wrong_from_unheard_of() -> None:
    field = Choice("XC3", ["XC1", "XC3"])
    assert score(field, " xc3\n") == 1
    assert field.judge("XC1") == Verdict(0, "wrong")
    assert field.judge("XC9") == Verdict(0, "is none of XC1, XC3")


@pytest.mark.parametrize(
    ("value", "partial", "whole"),
    [
        (["a", "b", "c"], 1, 1),
        (["c", "B ", "a"], 1, 1),
        (["a", "b"], 2 / 3, 0),
        (["a", "b", "b"], 2 / 3, 0),
        (["a", "b", "c", "d"], 3 / 4, 0),
        (["a", "b", "c", *"defghi"], 3 / 9, 0),
        ([], 0, 0),
        ([["a"], {}, None], 0, 0),
        (["a"] * 100_000, 0, 0),
    ],
)
def test_items_count_once_each_and_too_many_cost(
    value: list[object], partial: float, whole: float
) -> None:
    assert score(Items(["a", "b", "c"], partial=True), value) == pytest.approx(partial)
    assert score(Items(["a", "b", "c"]), value) == whole


def test_ordered_items_count_in_their_places() -> None:
    field = Items([1, True, Number(2.0, rel=0.1)], ordered=True, partial=True)
    assert score(field, [1, True, 2.1]) == 1
    assert score(field, [True, 1, 2.1]) == pytest.approx(1 / 3)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.lists(st.integers(0, 20)))
def test_items_with_tolerances_are_paired_as_well_as_can_be(
    expected: list[int], given: list[int]
) -> None:
    given = given[:5]
    field = Items([Number(value, abs=3) for value in expected], partial=True)
    padded: list[float] = [*given, *[math.inf] * len(expected)]
    best = max(
        sum(abs(value - one) <= 3 for value, one in zip(expected, chosen, strict=True))
        for chosen in itertools.permutations(padded, len(expected))
    )
    assert score(field, given) == pytest.approx(best / max(len(expected), len(given)))


FINDINGS = {"B4": Number(12.5, abs=0.01), "C1": Choice("fails", ["fails", "complies"])}


@pytest.mark.parametrize(
    ("value", "earned"),
    [
        ({"B4": 12.5, "C1": "fails"}, 1),
        ({" b4": 12.5, "c1 ": "Fails"}, 1),
        ({"B4": 12.5}, 1 / 2),
        ({"B4": 13, "C1": "fails"}, 3 / 4),
        ({"B4": 13, "C1": "complies"}, 1 / 2),
        ({"B4": 12.5, "C1": "fails", "D1": 1}, 1 / 2),
        ({"B4": 12.5, "D1": 1, "D2": 1}, 0),
        ({}, 0),
        ({"B4": None, "D1": {}, "D2": [[]]}, 0),
        ({"B4": 12.5, "b4": 13}, 0),
        ({f"{number}": 1 for number in range(10_000)}, 0),
        ([], 0),
        ("B4", 0),
    ],
)
def test_entries_earn_by_name_and_mistakes_cost(value: object, earned: float) -> None:
    field = Entries(FINDINGS, wrong=0.5, extra=-1)
    assert score(field, value) == pytest.approx(earned)
    assert field.expected == {"B4": 12.5, "C1": "fails"}
    assert field.tolerance == "±0.01, exact"


def test_the_same_verdict_for_every_entry_earns_nothing_where_wrong_ones_cost() -> None:
    verdicts = {"a": "yes", "b": "no", "c": "unknown", "d": "no"}
    options = ("yes", "no", "unknown")
    field = Entries({name: Choice(it, options) for name, it in verdicts.items()}, wrong=-1)
    for option in options:
        assert score(field, dict.fromkeys(verdicts, option)) == 0
    assert score(field, {**verdicts, "a": "no"}) == pytest.approx(1 / 2)
    assert field.judge({**verdicts, "e": "no"}) == Verdict(1)
    assert field.judge({"a": "no"}).fault == "0 of 4 are right, 1 wrong, 0 not expected"


# Units


@pytest.mark.parametrize(
    ("answer", "expected", "unit"),
    [
        ("3.2 kV", 3200, "V"),
        ("3200V", 3.2, "kV"),
        ("+3.2e3 V", 3200, "V"),
        ("\N{MINUS SIGN}5 °C", -5, "°C"),
        ("293.15 K", 20, "°C"),
        ("20 degC", 293.15, "K"),
        ("12 mA", 0.012, "A"),
        ("1.5 MVA", 1500, "kVA"),
        ("7 kVAr", 7000, "var"),
        ("2 kΩ", 2000, "ohm"),
        ("0.5 Ω/km", 0.0005, "ohm/m"),
        ("2500 mm", 2.5, "m"),
        ("25 cm²", 2500, "mm2"),
        ("2 m^2", 2e6, "mm²"),
        ("1 ha", 10_000, "m2"),
        ("250 l", 0.25, "m3"),
        ("36 m3/h", 10, "l/s"),
        ("600 L/min", 0.01, "m3/s"),
        ("0.03 GPa", 30, "N/mm2"),
        ("5 bar", 500, "kPa"),
        ("12 kN·m", 12_000, "Nm"),
        ("12 kNm", 12_000_000, "N mm"),
        ("18.5 kN/m3", 18_500, "N/m³"),
        ("90 min", 1.5, "h"),
        ("72 km/h", 20, "m/s"),
        ("2 t", 2000, "kg"),
        ("1 kWh", 3.6, "MJ"),
        ("0.25 W/m2K", 0.25, "W/(m2·K)"),
        ("0.25 W/m²/K", 0.25, "W/(m2.°C)"),
        ("180°", math.pi, "rad"),
        ("1500 rpm", 25, "Hz"),
        ("0.45 %", 4500, "ppm"),
        ("47 µF", 4.7e-5, "F"),
    ],
)
def test_a_quantity_counts_in_any_unit_that_fits(answer: str, expected: float, unit: str) -> None:
    field = Number(expected, unit=unit)
    assert field.judge(answer) == Verdict(1)
    assert field.judge(expected) == Verdict(1)
    assert score(Number(expected), answer) == 0


def test_a_quantity_may_be_an_object() -> None:
    field = Number(3200, unit="V", rel=1e-6)
    assert score(field, {"value": 3.2, "unit": "kV"}) == 1
    assert score(field, {"value": "3.2", "unit": "kV"}) == 0
    assert score(field, {"value": 3.2, "unit": 1}) == 0
    assert score(field, {"value": 3.2}) == 0


@pytest.mark.parametrize(
    ("answer", "unit", "fault"),
    [
        ("3.2 kA", "V", "'kA' is not a unit for 'V'"),
        ("5 kW", "kVA", "'kW' is not a unit for 'kVA'"),
        ("5 MW", "W", "outside the tolerance"),
        ("5 mw", "W", "'mw' is not a known unit"),
        ("5 volts", "V", "'volts' is not a known unit"),
        ("5 kkV", "V", "'kkV' is not a known unit"),
        ("5 kmin", "s", "'kmin' is not a known unit"),
        ("5 V or so", "V", "'V or so' is not a known unit"),
        ("5 V/", "V", "'V/' is not a known unit"),
        ("3,200 V", "V", "is a text"),
        ("about 5 V", "V", "is a text"),
        ("V", "V", "is a text"),
        ("nan V", "V", "is a text"),
        ("1e999 V", "V", "is infinite or too large"),
        ("9" * 5000 + " V", "V", "is a text"),
    ],
)
def test_a_quantity_that_does_not_fit_says_why(answer: str, unit: str, fault: str) -> None:
    verdict = Number(5, unit=unit).judge(answer)
    assert verdict.score == 0
    assert str(verdict.fault).startswith(fault)


@given(st.text("kmMVAWNhs/23()·. °%-", max_size=60))
def test_any_text_is_a_unit_or_a_value_error(unit: str) -> None:
    reason = ""
    try:
        assert not math.isnan(convert(1.0, unit, unit))
    except ValueError as error:
        reason = str(error)
    assert len(reason) < 100


@given(
    numbers,
    st.sampled_from([("V", "kV"), ("l/s", "m3/h"), ("°C", "K"), ("mm2", "m2"), ("°", "rad")]),
)
def test_there_and_back_is_where_it_was(number: float, units: tuple[str, str]) -> None:
    one, other = units
    back = convert(convert(number, one, other), other, one)
    assert back == pytest.approx(number, rel=1e-9, abs=1e-9)


# Grading


def test_the_reward_is_the_weighted_mean() -> None:
    fields = {"a": Number(1, weight=3), "b": Number(2), "c": Number(3, weight=0.5)}
    assert grade(fields, {"a": 1, "b": 9, "c": 3}).reward == pytest.approx(3.5 / 4.5)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1))
def test_all_right_is_exactly_one_whatever_the_weights(weights: list[float]) -> None:
    fields = {str(i): Number(i, weight=weight) for i, weight in enumerate(weights)}
    assert grade(fields, {name: int(name) for name in fields}).reward == 1


def test_a_field_counts_only_with_what_it_needs_and_what_that_needs() -> None:
    fields = {
        "verdict": Flag(True, needs="ratio"),
        "ratio": Number(0.5, needs=("moment",)),
        "moment": Number(10, rel=0.01, near=9),
    }
    right = {"verdict": True, "ratio": 0.5, "moment": 10}
    assert grade(fields, right).reward == 1
    graded = grade(fields, {**right, "moment": 10.5})
    assert graded.scores == {"verdict": 0, "ratio": 0, "moment": 0.5}
    assert graded.details["verdict"]["error"] == "counts only with ratio"


def test_names_with_dots_reach_into_objects() -> None:
    fields = {"beam.moment_knm": Number(1), "a.b": Number(2), "c.d.e": Number(3)}
    answer = {"beam": {"moment_knm": 1}, "a.b": 2, "a": {"b": 9}, "c": {"d": [3]}}
    assert grade(fields, answer).scores == {"beam.moment_knm": 1, "a.b": 1, "c.d.e": 0}


def test_a_field_of_ones_own_counts_like_any_other() -> None:
    class Even(Field):
        def judge(self, value: object) -> Verdict:
            fits = isinstance(value, int) and value % 2 == 0
            return Verdict(1) if fits else Verdict(0, "is odd")

    assert grade({"n": Even(weight=2)}, {"n": 4}).reward == 1
    assert grade({"n": Even()}, {"n": 3}).details["n"]["error"] == "is odd"


# Mistakes of the verifier's own


@pytest.mark.parametrize(
    "make",
    [
        partial(Number, math.nan),
        partial(Number, 0, rel=0.01),
        partial(Number, 1, rel=-0.01),
        partial(Number, 1, near=2),
        partial(Number, 1, unit="furlong"),
        partial(Number, 1, weight=0),
        partial(Number, "1"),  # type: ignore[arg-type]
        partial(Between, 2, 1),
        partial(Flag, 1),  # type: ignore[arg-type]
        partial(Choice, "C9", ["C1", "C2"]),
        partial(Choice, "C", "C"),
        partial(Choice, "c", ["c", "C"]),
        partial(Items, []),
        partial(Items, "ab"),
        partial(Items, [Items([1])]),
        partial(Entries, {}),
        partial(Entries, {"a": 1, "A ": 2}),
        partial(Entries, {"a": 1}, wrong=1.5),
        partial(Entries, {"a": 1}, extra=0.1),
        partial(Entries, {"a": Entries({"b": 1})}),
        partial(grade, {}, {}),
        partial(grade, {"reward": Flag(True)}, {}),
        partial(grade, {"a": Flag(True, needs="b")}, {}),
        partial(grade, {"a": Flag(True, needs="a")}, {}),
    ],
)
def test_a_field_that_makes_no_sense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        make()


def test_a_bug_in_the_verifier_leaves_no_reward(workshop: Workshop) -> None:
    class Broken(Field):
        def judge(self, value: object) -> Verdict:
            raise KeyError("a bug")

    workshop.output.write_text('{"a": 1}')
    where = {"workspace": str(workshop.workspace), "logs": str(workshop.logs)}
    with pytest.raises(KeyError):
        verify({"a": Broken()}, **where)
    assert not workshop.logs.exists()


@pytest.mark.parametrize("given", [-0.1, 1.1, math.nan])
def test_a_score_out_of_range_is_a_bug(given: float) -> None:
    class Generous(Field):
        def judge(self, value: object) -> Verdict:
            return Verdict(given)

    with pytest.raises(ValueError):
        grade({"a": Generous()}, {"a": 1})


# One file for any image


def test_it_stands_alone_and_is_written_in_the_oldest_python() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names
    assert "pytest_aecbench" not in imported


def test_a_copy_works_where_nothing_is_installed(tmp_path: Path) -> None:
    (tmp_path / "aec_verify.py").write_bytes(SOURCE.read_bytes())
    (tmp_path / "output.jsonl").write_text('{"a": "1 V"}')
    where = f"workspace={str(tmp_path)!r}, logs={str(tmp_path / 'logs')!r}"
    (tmp_path / "verify.py").write_text(
        f"from aec_verify import Number, verify\nverify({{'a': Number(1, unit='V')}}, {where})\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-ISB",
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import verify",
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "reward 1\n", "")


def oldest_python() -> str:
    """Return the oldest interpreter of this machine that is not older than what is promised."""
    roots = [*map(Path, os.get_exec_path()), *Path.home().glob(".pyenv/versions/*/bin")]
    if "PYENV_ROOT" in os.environ:
        roots += Path(os.environ["PYENV_ROOT"]).glob("versions/*/bin")
    for minor in range(8, sys.version_info.minor):
        for root in roots:
            python = root / f"python3.{minor}"
            if python.is_file() and subprocess.run([python, "-V"], capture_output=True).stdout:
                return str(python)
    return sys.executable


def test_the_oldest_python_grades_alike() -> None:
    program = f"""if True:
        import json, sys
        sys.path.insert(0, {str(SOURCE.parent)!r})
        from verify import Choice, Flag, Items, Number, grade
        fields = {{
            "current_a": Number(2.0, rel=0.01, unit="A"),
            "safe": Flag(True, needs="current_a"),
            "class": Choice("C2", ["C1", "C2", "C3"]),
            "rooms": Items(["kitchen", "hall"], partial=True),
        }}
        answers = json.load(sys.stdin)
        print(json.dumps([grade(fields, answer)._asdict() for answer in answers]))
    """
    answers = [RIGHT, {**RIGHT, "current_a": "2000 mA", "rooms": ["hall"]}, {**RIGHT, "class": 2}]
    done = subprocess.run(
        [oldest_python(), "-ISB", "-c", program],
        input=json.dumps(answers),
        capture_output=True,
        text=True,
    )
    here = [grade(FIELDS, answer)._asdict() for answer in answers]
    assert done.stderr == ""
    assert json.loads(done.stdout) == json.loads(json.dumps(here))


def test_every_public_name_is_listed() -> None:
    names = [name for name in module.__all__ if getattr(module, name).__module__ == module.__name__]
    assert names == sorted(module.__all__)
