from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.reports.gate_parser import parse_gate
from pytest_aecbench.reports.gates import (
    Clause,
    Combination,
    Condition,
    Filter,
    Gate,
    Not,
    Verdict,
    judge_error_rate,
)
from pytest_aecbench.reports.results import TrialResult
from tests.unit.test_statistics import a_result


def judge(text: str, *results: TrialResult) -> Verdict:
    return parse_gate(text, "--aec-gate").judge(results)


def passes(text: str, *results: TrialResult) -> bool:
    return judge(text, *results).passed


def line(text: str, *results: TrialResult) -> str:
    [only] = judge(text, *results).lines
    return only


def refusal(text: str) -> str:
    with pytest.raises(SettingsError) as error:
        parse_gate(text, "--aec-gate")
    return str(error.value)


def tasks(*rewards: float | None, agent: str = "oracle") -> list[TrialResult]:
    return [a_result(r, task_id=f"civil/{n}", agent=agent) for n, r in enumerate(rewards)]


def repetitions(task_id: str, *rewards: float | None) -> list[TrialResult]:
    return [a_result(r, task_id=task_id, repetition=n) for n, r in enumerate(rewards, start=1)]


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("mean>=0.6", "mean>=0.6"),
        ("  mean\n>=\t0.6 ", "mean>=0.6"),
        ("mean>=60%", "mean>=0.6"),
        ("errors<=0.1%", "errors<=0.001"),
        ("min==.5", "min==0.5"),
        ("pass^12<1.0", "pass^12<1"),
        ("trials>10", "trials>10"),
        (
            "pass@1[difficulty=easy]>=0.9 and errors<=0.05",
            "pass@1[difficulty=easy]>=0.9 and errors<=0.05",
        ),
        (
            "mean[ domain = electrical , agent = gpt ] > 0.5 or pass@3 >= 0.8",
            "mean[domain=electrical,agent=gpt]>0.5 or pass@3>=0.8",
        ),
        ("((mean>=0.6))", "mean>=0.6"),
        ("(mean>0)and(min>0)", "mean>0 and min>0"),
        ("mean>0 or (min>0 and trials>1)", "mean>0 or min>0 and trials>1"),
        ("(mean>0 or min>0) and trials>1", "(mean>0 or min>0) and trials>1"),
        ("not(not mean>0)", "not not mean>0"),
        ("not (mean>0 and min>0)", "not (mean>0 and min>0)"),
        ("mean[agent='gpt 4']>0", 'mean[agent="gpt 4"]>0'),
        ("mean[agent='gpt']>0", "mean[agent=gpt]>0"),
        ("mean[agent='say \"hi\"']>0", "mean[agent='say \"hi\"']>0"),
        ("mean[task=civil/*-beam,agent=tool_loop:gpt-5]>0",) * 2,
        ("mean[agent=and,task=mean]>0", "mean[agent=and,task=mean]>0"),
    ],
)
def test_a_gate_reads_with_free_spacing_and_is_written_back_the_same_way(
    text: str, normalised: str
) -> None:
    gate = parse_gate(text, "--aec-gate")
    assert str(gate) == normalised
    assert parse_gate(normalised, "--aec-gate") == gate


QUOTED = "'errors', 'mean', 'min', 'pass@K', 'pass^K', 'trials'"
USE = "errors, mean, min, pass@K, pass^K, trials"
FILTERS = "agent, difficulty, domain, task"
SHARE = "expected a number from 0 to 1, such as 0.6 or 60%"
VALUE = "expected a word or a quoted string, with * for any text"


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, f"found the end; expected 'not', '(' or one of {USE}"),
        ("   ", 4, f"found the end; expected 'not', '(' or one of {USE}"),
        ("meen>=0.6", 1, "unknown metric 'meen'; did you mean 'mean'?"),
        ("0.6<=mean", 1, f"unknown metric '0.6'; use one of {QUOTED}"),
        ("pass>=0.6", 1, "unknown metric 'pass'; did you mean 'pass^K'?"),
        ("Mean>=0.6", 1, "unknown metric 'Mean'; did you mean 'mean'?"),
        ("'mean'>=0.6", 1, f"found \"'mean'\"; expected 'not', '(' or one of {USE}"),
        ("mean>0 and or min>0", 12, f"found 'or'; expected 'not', '(' or one of {USE}"),
        *(
            (
                f"{metric}>0.5",
                1,
                f"{metric!r} has no valid K; use a whole number from 1 to 9999 for K, as in pass@3",
            )
            for metric in ("pass@K", "pass@", "pass@0", "pass^-1", "pass@1.5", "pass@10000")
        ),
        ("mean", 5, "found the end; expected one of <, <=, ==, >, >="),
        ("mean=0.6", 5, "found '='; expected one of <, <=, ==, >, >="),
        ("mean =< 0.6", 6, "found '='; expected one of <, <=, ==, >, >="),
        ("mean>=", 7, f"found the end; {SHARE}"),
        ("mean>=60", 7, f"found '60'; {SHARE}"),
        ("mean>=101%", 7, f"found '101%'; {SHARE}"),
        ("mean>=-0.1", 7, f"found '-0.1'; {SHARE}"),
        ("mean>=1e-3", 7, f"found '1e-3'; {SHARE}"),
        ("mean>=nan", 7, f"found 'nan'; {SHARE}"),
        ("mean>=²", 7, f"found '²'; {SHARE}"),
        ("mean>=min", 7, f"found 'min'; {SHARE}"),
        ("trials>=5%", 9, "found '5%'; expected a whole number"),
        ("trials>=0.5", 9, "found '0.5'; expected a whole number"),
        ("mean>=0.6 min>0", 11, "found 'min'; expected 'and', 'or' or the end"),
        ("mean>=0.6 AND min>0", 11, "found 'AND'; expected 'and', 'or' or the end"),
        ("mean>=0.6)", 10, "found ')'; expected 'and', 'or' or the end"),
        ("(mean>=0.6", 11, "found the end; expected 'and', 'or' or ')'"),
        ("mean[]>0", 6, f"found ']'; expected one of {FILTERS}"),
        ("mean[agnt=x]>0", 6, "unknown filter 'agnt'; did you mean 'agent'?"),
        ("mean[agent>x]>0", 11, "found '>'; expected '='"),
        ("mean[agent=]>0", 12, f"found ']'; {VALUE}"),
        ("mean[agent='']>0", 12, f"found \"''\"; {VALUE}"),
        ("mean[agent=a b]>0", 14, "found 'b'; expected ',' or ']'"),
        ("mean[agent=a,]>0", 14, f"found ']'; expected one of {FILTERS}"),
        ("mean[agent=a", 13, "found the end; expected ',' or ']'"),
        ("mean[agent='a]>0", 12, "\"'a]>0\" has no closing quote; add one"),
        ("mean[agent='a\nb']>0", 12, "\"'a\\nb'\" cannot be shown; use printable characters"),
    ],
)  # fmt: skip
def test_what_is_no_gate_is_refused_with_the_column_and_what_was_expected(
    text: str, column: int, message: str
) -> None:
    assert refusal(text) == f"--aec-gate: {text!r}: column {column}: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 1_000_000, "column 21: nested too deep; use at most 20 levels"),
        ("(mean>0) and " * 30 + "(" * 21, "column 411: nested too deep; use at most 20 levels"),
        ("not " * 300_000, "column 81: nested too deep; use at most 20 levels"),
        ("mean>=0 and " * 100_000, "column 1501: too long; use at most 500 words and signs"),
        ("mean[" + "agent=a," * 100_000, "too long; use at most 500 words and signs"),
        ("m" * 1_000_000, "...' is too long; use at most 200 characters"),
        ("mean[agent='" + " " * 1_000_000 + "']>0", "is too long; use at most 200 characters"),
        ("mean[agent='" + " " * 1_000_000, "has no closing quote; add one"),
        (" " * 1_000_000, "column 1000001: found the end"),
    ],
)
def test_a_huge_or_deeply_nested_gate_is_refused_in_one_short_line(text: str, message: str) -> None:
    found = refusal(text)
    assert message in found
    assert len(found) < 400


def test_a_refusal_shows_80_characters_of_the_gate_and_of_the_word() -> None:
    whole = f"'{'x' * 80}'"
    assert refusal("x" * 80).startswith(f"--aec-gate: {whole}: column 1: unknown metric {whole}; ")
    short = f"'{'x' * 77}...'"
    assert refusal("x" * 81).startswith(f"--aec-gate: {short}: column 1: unknown metric {short}; ")


def test_gates_up_to_the_bounds_are_read() -> None:
    deep = "(" * 20 + "mean>0" + ")" * 20
    assert str(parse_gate(deep, "x")) == "mean>0"
    assert parse_gate(" and ".join(["(mean>0)"] * 30), "x")
    # 125 comparisons of three words and signs each, and 124 times "and".
    long = " and ".join(["mean>5%"] * 125)
    gate = parse_gate(long, "x")
    assert parse_gate(str(gate), "x") == gate
    assert parse_gate(f"mean[agent={'a' * 200}]>0", "x")


SNIPPETS = [
    *("mean", "errors", "pass@2", "pass^3", "trials", "agent", "task", "and", "or", "not"),
    *("(", ")", "[", "]", ",", "=", "==", ">=", "<", "'", '"', " ", "\n", "0.5", "60%", "x*", "é"),
]


@given(st.text() | st.lists(st.sampled_from(SNIPPETS)).map("".join))
def test_any_text_is_a_gate_or_a_one_line_error(text: str) -> None:
    try:
        gate = parse_gate(text, "--aec-gate")
    except SettingsError as error:
        [message] = str(error).splitlines()
        assert message.startswith("--aec-gate: ")
        assert ": column " in message
        assert "; " in message
        assert message.isprintable()
    else:
        assert parse_gate(str(gate), "--aec-gate") == gate
        assert str(gate).isprintable()


def printable(text: str) -> bool:
    return text.isprintable() and not {"'", '"'} <= set(text)


VALUES = st.text(min_size=1, max_size=20).filter(printable) | st.sampled_from(["a*", "and", "x y"])
COMPARISONS = st.builds(
    Clause,
    st.sampled_from(["mean", "min", "errors"]) | st.from_regex(r"\Apass[@^][1-9]\Z"),
    st.lists(
        st.builds(Filter, st.sampled_from(["agent", "difficulty", "domain", "task"]), VALUES),
        max_size=3,
    ).map(tuple),
    st.sampled_from(["<", "<=", "==", ">", ">="]),
    st.integers(0, 10**6).map(lambda n: n / 10**6),
) | st.builds(Clause, st.just("trials"), st.just(()), st.just(">="), st.integers(0, 99))


def combined(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(parts, min_size=2, max_size=4).map(tuple)
    return st.builds(Not, parts) | st.builds(Combination, st.sampled_from(["and", "or"]), several)


def conditions(leaves: st.SearchStrategy[Clause]) -> st.SearchStrategy[Condition]:
    return st.recursive(leaves, combined, max_leaves=12)


@given(conditions(COMPARISONS))
def test_every_gate_is_what_its_text_says(condition: Condition) -> None:
    gate = Gate(condition)
    assert parse_gate(str(gate), "x") == gate


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("mean>=0.5", True),
        ("mean>0.5", False),
        ("mean<=0.5", True),
        ("mean<0.5", False),
        ("mean==0.5", True),
        ("mean==0.51", False),
        ("not mean>0.5", True),
        ("not not mean>0.5", False),
        ("mean>=0.5 and min>=0.5", False),
        ("mean>=0.5 or min>=0.5", True),
        ("not (mean>=0.5 and min>=0.5)", True),
        ("not (mean>=0.5 or min>=0.5)", False),
        ("mean>=0.5 or min>=0.5 and min>=0.5", True),
        ("(mean>=0.5 or min>=0.5) and min>=0.5", False),
        ("not min>=0.5 and mean>=0.5", True),
    ],
)
def test_comparisons_and_their_combinations(text: str, passed: bool) -> None:
    assert passes(text, *tasks(0.0, 1.0)) is passed


def test_a_line_says_the_figure_its_interval_what_was_needed_and_whether_it_held() -> None:
    results = [*tasks(0.5, 0.6, 0.7), a_result(1.0, task_id="x")]
    verdict = judge("mean[task=civil/*]>=60% and pass@1[task=c*]>0", *results)
    assert not verdict.passed
    assert verdict.lines == (
        "mean[task=civil/*] = 0.60 (95 % interval 0.17 to 0.89, 3 tasks), needs >= 0.6: holds",
        "pass@1[task=c*] = 0.00 (95 % interval 0.00 to 0.71, 3 tasks), needs > 0: does not hold",
    )


def test_a_line_for_each_comparison_also_where_the_first_decides() -> None:
    assert len(judge("mean>=0 or min>=0 or (errors<=1 and trials>=9)", *tasks(1.0)).lines) == 4


ONE_TASK = "mean = 0.25 (95 % interval 0.01 to 0.98, 1 task)"


def test_one_task_has_a_mean_and_an_interval_that_says_nothing() -> None:
    assert line("mean>0.5", a_result(0.25)) == f"{ONE_TASK}, needs > 0.5: does not hold"


def test_a_negated_comparison_says_what_was_needed_of_it() -> None:
    assert line("not mean>0.5", a_result(0.25)) == f"{ONE_TASK}, needs not > 0.5: holds"
    assert line("not not mean>0", a_result(0.25)) == f"{ONE_TASK}, needs > 0: holds"


def test_a_figure_is_shown_with_the_decimals_that_tell_it_from_what_was_needed() -> None:
    assert line("mean>=0.6", a_result(0.59999)).startswith("mean = 0.59999 (")
    assert line("mean>=0.6", a_result(0.591)).startswith("mean = 0.59 (")
    assert line("mean>0.333333", *repetitions("a", 1.0, 0.0, 0.0)).startswith("mean = 0.3333333 (")


def test_rounding_of_binary_fractions_does_not_decide() -> None:
    assert sum([0.1] * 3) / 3 != 0.1
    assert passes("mean==0.1", *tasks(0.1, 0.1, 0.1))
    # 1 - comb(7, 1) / comb(10, 1) is a little more than 0.3.
    assert passes("pass@1<=0.3", *repetitions("a", *[1.0] * 3, *[0.0] * 7))
    assert judge_error_rate(tasks(None, None, 1.0), 2 / 3).passed


def test_errors_are_a_share_and_never_zeros_in_a_mean() -> None:
    results = tasks(*[1.0] * 19, None)
    assert passes("mean==1 and pass@1==1 and min==1", *results)
    assert line("errors<0.05", *results) == (
        "errors = 0.05 (1 of 20 trials), needs < 0.05: does not hold"
    )
    assert line("mean>=1", *results) == (
        "mean = 1.00 (95 % interval 0.82 to 1.00, 19 of 20 tasks, 0.95 with errors as zeros), "
        "needs >= 1: holds"
    )
    assert line("trials>=20", *results) == "trials = 19 (scored, of 20), needs >= 20: does not hold"


@pytest.mark.parametrize("metric", ["mean", "min", "pass@1", "pass^1"])
@pytest.mark.parametrize("condition", ["{}>=0", "{}<=1", "not {}>=0", "{}>=0 or {}<1"])
def test_a_figure_whose_scores_are_missing_satisfies_nothing(metric: str, condition: str) -> None:
    results = tasks(1.0, *[None] * 13)
    verdict = judge(condition.replace("{}", metric), *results)
    assert not verdict.passed
    assert "= unknown (92.86 % of scores are missing, at most 5 % may be; " in verdict.lines[0]
    assert "1 of 14 tasks" in verdict.lines[0]


def test_a_mean_whose_scores_are_missing_says_what_is_known_of_it() -> None:
    assert line("mean>=0.9", *tasks(1.0, *[None] * 13)) == (
        "mean = unknown (92.86 % of scores are missing, at most 5 % may be; without them 1.00, "
        "95 % interval 0.03 to 1.00, 1 of 14 tasks, 0.07 with errors as zeros), needs >= 0.9: "
        "does not hold"
    )


def test_errors_at_chosen_repetitions_do_not_raise_a_mean() -> None:
    results = [one for n in range(10) for one in repetitions(f"civil/{n}", 1.0, None, None)]
    assert "unknown (66.67 % of scores are missing" in line("mean>=0.9", *results)


def test_the_share_of_scores_that_may_be_missing_can_be_set() -> None:
    gate = parse_gate("mean>=0.9 and pass@1>=0.9", "x")
    results = tasks(1.0, 1.0, 1.0, None)
    assert not gate.judge(results, 0.24).passed
    assert gate.judge(results, 0.25).passed
    assert not gate.judge(tasks(*[1.0] * 20, None), 0).passed
    assert gate.judge(tasks(*[1.0] * 20), 0).passed


def test_repetitions_that_are_missing_to_exactly_the_share_are_not_too_many() -> None:
    results = [*repetitions("civil/a", *[1.0] * 19, None), *repetitions("civil/b", *[1.0] * 20)]
    assert parse_gate("mean>=1", "x").judge(results, 0.025).passed


def test_a_trial_that_was_not_verified_is_neither_scored_nor_an_error() -> None:
    results = [a_result(None, error_cause=None), a_result(1.0, task_id="b")]
    assert passes("errors==0 and trials==1", *results)
    assert not passes("mean>=0", *results)


def test_tasks_weigh_the_same_and_the_lowest_counts_for_min() -> None:
    results = [*repetitions("a", 1.0, 1.0, 0.4), *repetitions("b", 0.2)]
    assert passes("mean==0.5", *results)
    assert line("min>=0.5", *results) == "min = 0.20 (2 tasks), needs >= 0.5: does not hold"


def test_pass_at_k_and_pass_hat_k_are_over_the_tasks_with_k_scored_trials() -> None:
    results = [
        *repetitions("a", 1.0, 0.0),
        *repetitions("b", 0.5, 0.5),
        *repetitions("c", 1.0, None),
    ]
    gate = parse_gate("pass@2==0.5 and pass^2==0 and pass@1==0.5 and pass^1==0.5", "x")
    verdict = gate.judge(results, 0.5)
    assert verdict.passed
    assert "2 of 3 tasks), needs == 0.5: holds" in verdict.lines[0]
    assert "pass@2 = unknown (33.33 % of scores are missing" in line("pass@2>=0.1", *results)


def test_pass_at_1_of_single_trials_has_an_interval_for_proportions() -> None:
    assert line("pass@1>=0.9", *tasks(*[1.0] * 10)) == (
        "pass@1 = 1.00 (95 % interval 0.69 to 1.00, 10 tasks), needs >= 0.9: holds"
    )


def test_pass_at_k_without_k_scored_trials_is_unknown_and_says_what_is_needed() -> None:
    results = repetitions("a", 1.0, 1.0, None)
    expected = "pass@3 = unknown (no task has 3 scored trials; use --aec-repetitions=3 or more), "
    assert line("pass@3>=0", *results) == f"{expected}needs >= 0: does not hold"
    assert line("not pass@3>=0", *results) == f"{expected}needs not >= 0: does not hold"
    assert not passes("pass@3>=0", *results)
    assert not passes("not pass@3>=0", *results)


@pytest.mark.parametrize("metric", ["mean", "min", "pass@1", "pass^1", "errors", "trials"])
@pytest.mark.parametrize("text", ["{}[domain=none]>=0", "not {}[domain=none]>=0", "{}[agent=no]<1"])
def test_nothing_is_satisfied_by_an_empty_selection(metric: str, text: str) -> None:
    verdict = judge(text.format(metric), a_result())
    assert not verdict.passed
    assert "] = unknown (no trial), needs " in verdict.lines[0]


def test_nothing_is_satisfied_by_no_results() -> None:
    assert line("mean>=0") == "mean = unknown (no trial), needs >= 0: does not hold"
    assert not judge_error_rate([], 1.0).passed


@pytest.mark.parametrize("metric", ["mean", "min", "pass@1", "pass^2"])
def test_no_scored_trial_satisfies_no_comparison_of_rewards(metric: str) -> None:
    for text in (f"{metric}>=0", f"not {metric}>=0", f"not not {metric}>=0"):
        verdict = judge(text, a_result(None))
        assert not verdict.passed
        assert f"{metric} = unknown (no scored trial), needs " in verdict.lines[0]
    assert passes("errors==1 and trials==0", a_result(None))


LEAVES = {
    True: Clause("mean", (), ">=", 0.5),
    False: Clause("mean", (), "<", 0.5),
    None: Clause("mean", (Filter("domain", "none"),), ">=", 0.0),
}


def three_valued(condition: Condition) -> bool | None:
    """Judge by the tables of Kleene's logic, where None is not known."""
    if isinstance(condition, Not):
        value = three_valued(condition.part)
        return None if value is None else not value
    if isinstance(condition, Combination):
        decisive = condition.word == "or"
        values = {three_valued(part) for part in condition.parts}
        if decisive in values:
            return decisive
        return None if None in values else not decisive
    return next(value for value, leaf in LEAVES.items() if leaf is condition)


@given(conditions(st.sampled_from(list(LEAVES.values()))))
def test_what_is_not_known_never_passes(condition: Condition) -> None:
    assert Gate(condition).judge([a_result(0.5)]).passed is (three_valued(condition) is True)


def test_with_several_agents_a_comparison_must_hold_for_each() -> None:
    results = [*tasks(1.0, agent="good"), *tasks(0.5, agent="fair")]
    verdict = judge("mean>=0.6", *results)
    assert not verdict.passed
    fair, good = verdict.lines
    assert fair.startswith("mean[agent=fair] = 0.50 (95 % interval 0.01 to 0.99, 1 task), ")
    assert fair.endswith("needs >= 0.6: does not hold")
    assert good.startswith("mean[agent=good] = 1.00 (95 % interval 0.03 to 1.00, 1 task), ")
    assert good.endswith("needs >= 0.6: holds")
    assert passes("mean>=0.5", *results)
    assert passes("mean[agent=good]>=0.6", *results)
    assert not passes("not mean>=0.6", *results)


def test_an_agent_without_a_trial_in_the_selection_does_not_satisfy_it() -> None:
    results = [a_result(1.0, agent="a"), a_result(1.0, agent="b", domain="civil")]
    verdict = judge("mean[domain=civil]>=0.6", *results)
    assert not verdict.passed
    assert verdict.lines[0].startswith("mean[agent=a,domain=civil] = unknown (no trial)")


def test_agents_that_one_pattern_names_are_judged_apart() -> None:
    results = [*tasks(1.0, agent="gpt-a"), *tasks(0.0, agent="gpt-b"), *tasks(0.0, agent="nop")]
    verdict = judge("mean[agent=gpt-*]>=0.5", *results)
    assert not verdict.passed
    assert [one.partition(" =")[0] for one in verdict.lines] == [
        "mean[agent=gpt-a]",
        "mean[agent=gpt-b]",
    ]


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ("task=civil/a", 1),
        ("task=civil/*", 2),
        ("task=*a*", 4),
        ("task='with space'", 1),
        ("task='with*'", 1),
        ("domain=civil", 2),
        ("domain=civil,difficulty=hard", 1),
        ("task=civil/*,task=*/b", 1),
        ("difficulty=unspecified", 1),
        ("task='a[b]?'", 1),
        ("agent=*", 5),
        ("agent=ora*", 5),
    ],
)
def test_filters_all_hold_and_only_a_star_stands_for_other_text(filters: str, count: int) -> None:
    results = [
        a_result(task_id="civil/a", domain="civil", difficulty="hard"),
        a_result(task_id="civil/b", domain="civil"),
        a_result(task_id="with space", difficulty=None),
        a_result(task_id="a[b]?"),
        a_result(task_id="abc"),
    ]
    assert passes(f"trials[{filters}]=={count}", *results)


def test_filters_know_upper_from_lower_case() -> None:
    assert not passes("trials[agent=Oracle]==1", a_result())


def test_a_pattern_of_many_stars_is_matched_at_once() -> None:
    pattern = "a*" * 90 + "b"
    assert not passes(f"trials[task={pattern}]>=1", a_result(task_id="a" * 4000))


def test_holdout_tasks_count() -> None:
    results = [a_result(1.0), a_result(0.0, task_id="secret", visibility="holdout")]
    assert passes("mean==0.5 and trials==2", *results)


def test_a_trial_is_judged_by_its_final_attempt() -> None:
    results = [a_result(None, attempt=1), a_result(1.0, attempt=2)]
    assert passes("errors==0 and trials==1 and mean==1", *results)


def test_names_cannot_start_a_new_line() -> None:
    results = [a_result(agent="a\nmean = 1"), a_result(agent="b\u2028\x1b[31m")]
    assert all(one.isprintable() for one in judge("mean>=0", *results).lines)


def test_the_error_rate_is_judged_for_each_agent() -> None:
    results = [*tasks(1.0, None, agent="a"), *tasks(1.0, 1.0, agent="b")]
    assert judge_error_rate(results, 0.25) == Verdict(
        passed=False,
        lines=(
            "errors[agent=a] = 0.50 (1 of 2 trials), needs <= 0.25: does not hold",
            "errors[agent=b] = 0.00 (0 of 2 trials), needs <= 0.25: holds",
        ),
    )
    assert judge_error_rate(results, 0.5).passed
