from __future__ import annotations

import pytest

from pytest_aecbench import errors


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.BuildError("x"), ("build", False, False)),
        (errors.LaunchError("x"), ("launch", True, False)),
        (errors.SandboxGone("x"), ("sandbox_gone", True, False)),
        (errors.BackendError("x"), ("backend", True, False)),
        (errors.ProviderError("x"), ("provider", True, False)),
        (errors.VerifierError("x"), ("verifier", False, False)),
        (ZeroDivisionError("x"), ("internal", False, False)),
        (KeyboardInterrupt(), ("interrupted", False, False)),
    ],
)
def test_every_error_has_a_cause_and_says_whether_to_retry(
    error: BaseException, expected: tuple[str, bool, bool]
) -> None:
    assert errors.classify(error) == expected
    assert errors.classify(type(error)) == expected


def test_a_subclass_of_somebody_elses_is_what_its_parent_is() -> None:
    class Preempted(errors.SandboxGone):
        pass

    assert errors.classify(Preempted()).cause == "sandbox_gone"


def test_no_error_is_ever_scored() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    assert not any(
        errors.classify(kind).scored
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, BaseException)
    )
