"""A trial whose files are removed from outside ends in an error and never in a zero."""

from __future__ import annotations

import pytest

from tests.project import Project

pytestmark = pytest.mark.needs("namespaces")

# Removes a directory of the agent's sandbox on the host, as a person or a cleaner of temporary
# files would: before or after its agent runs, or when its files are about to be verified.
BACKEND = """
    import shutil
    from pytest_aecbench.backends.local import LocalBackend

    class Untidy(LocalBackend):
        def launch_trial(self, **kwargs):
            handle = super().launch_trial(**kwargs)
            if kwargs["workspace_dir"].name == "workspace":
                self.agents = handle
            return handle

        def remove(self, what):
            layout = self._running[self.agents.handle_id].sandbox.layout
            shutil.rmtree(layout.workspace if what == "workspace" else layout.home / "logs")

        def execute_trial(self, *, handle, request):
            is_agent = "/solution" in request.uploads
            if "/workspace" in request.uploads and "{when}" == "verified":
                shutil.rmtree(request.uploads["/workspace"])
            if is_agent and "{when}" == "before":
                self.remove("{what}")
            result = super().execute_trial(handle=handle, request=request)
            if is_agent and "{when}" == "after":
                self.remove("{what}")
            return result

    def pytest_aecbench_make_backend(config, name):
        return Untidy()
"""


@pytest.mark.parametrize("mode", ["separate", "shared"])
@pytest.mark.parametrize(
    ("when", "what"), [("before", "workspace"), ("after", "workspace"), ("after", "logs")]
)
def test_a_directory_of_a_sandbox_that_is_removed_is_an_error(
    project: Project, when: str, what: str, mode: str
) -> None:
    project.task("civil/a", toml=f'[verifier]\nenvironment_mode = "{mode}"\n')
    project.pytester.makeconftest(BACKEND.format(when=when, what=what))
    project.run("--junitxml=out.xml").assert_outcomes(errors=1)
    evaluation = project.record()["evaluation"]
    assert evaluation["reward"] is None
    assert evaluation["error"]["cause"] == "backend_lost"
    assert (
        f"{what}: was removed on the host while the trial ran; " in evaluation["error"]["message"]
    )
    assert "<error" in (project.path / "out.xml").read_text()


def test_work_that_is_removed_before_it_is_verified_is_an_error(project: Project) -> None:
    project.task(toml='[verifier]\nenvironment_mode = "separate"\n')
    project.pytester.makeconftest(BACKEND.format(when="verified", what="workspace"))
    project.run().assert_outcomes(errors=1)
    error = project.record()["evaluation"]["error"]
    assert error["cause"] == "backend_lost"
    assert "workspace: was removed on the host while the trial ran" in error["message"]
