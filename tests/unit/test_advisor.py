"""The advisor of a model agent: its failures are its own, and end no trial but by its settings."""

from __future__ import annotations

import pytest

from pytest_aecbench.agents.advisor import Advisor
from pytest_aecbench.agents.parameters import AdvisorParameters
from pytest_aecbench.errors import ProviderError, RequestRejected
from pytest_aecbench.providers.calls import Caller, Meter
from pytest_aecbench.providers.clock import Clock
from tests.unit.test_calls import Provider

pytestmark = pytest.mark.usefixtures("own_machine")
QUESTION = {"question": "How?"}


def advisor(*failures: ProviderError) -> tuple[Advisor, Provider]:
    provider = Provider(*failures)
    caller = Caller(provider, Clock(100), Meter())
    return Advisor(AdvisorParameters(model="scripted:x", max_uses=2), caller, []), provider


def test_a_question_that_is_rejected_after_an_answer_ends_nothing() -> None:
    ours, provider = advisor()
    assert not ours.run(QUESTION, 10).is_error
    provider.failures.append(RequestRejected("no"))
    said = ours.run(QUESTION, 10)
    assert (said.is_error, said.text) == (True, "the advisor does not answer: no")


def test_a_first_question_that_is_rejected_shows_a_wrong_setting() -> None:
    ours, _ = advisor(RequestRejected("no"))
    with pytest.raises(RequestRejected):
        ours.run(QUESTION, 10)


def test_a_blank_question_is_not_asked() -> None:
    ours, provider = advisor()
    assert ours.run({"question": " \n"}, 10).text == "question: is blank; ask something"
    assert provider.asked == 0
    assert not ours.run(QUESTION, 10).is_error
    assert "[0 questions left]" in ours.run(QUESTION, 10).text
