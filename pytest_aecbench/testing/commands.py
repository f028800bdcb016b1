"""The tests of commands: what goes in, and what comes out."""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.errors import BackendError

if TYPE_CHECKING:
    from pytest_aecbench.testing.sandbox import Launch, RunningSandbox

__all__ = ["CommandConformance"]


class CommandConformance:
    """A command gets what the request says, and its output and exit code come back."""

    runs_as_other_users: bool

    def test_streams_and_exit_code_are_kept_apart(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("echo out; echo err >&2; exit 7")
        assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", 7)
        assert not result.timed_out
        assert not result.truncated
        assert 0 < result.duration_sec < 30

    def test_output_need_not_end_with_a_newline(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("printf out; printf err >&2")
        assert (result.stdout, result.stderr) == ("out", "err")
        assert sandbox.output("printf '\\n\\n'") == "\n\n"

    def test_a_missing_command_is_127(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("no-such-command-at-all")
        assert result.returncode == 127
        assert "no-such-command-at-all" in result.stderr

    def test_a_command_ended_by_a_signal_reads_as_in_a_shell(self, sandbox: RunningSandbox) -> None:
        assert sandbox.run("kill -TERM $$").returncode == 143

    def test_stdin_is_empty(self, sandbox: RunningSandbox) -> None:
        assert sandbox.output("cat; echo end") == "end\n"

    def test_output_that_is_not_text_is_replaced(self, sandbox: RunningSandbox) -> None:
        assert sandbox.output(r"printf 'a\xff\x00\xc3\xa9'") == "a\ufffd\0é"

    def test_variables_are_passed_as_they_are(self, sandbox: RunningSandbox) -> None:
        env = {"PLAIN": "1", "ODD": "a \"b\" 'c' $d \\ \n é", "EMPTY": ""}
        shown = sandbox.output('printf "%s|" "$PLAIN" "$ODD" "${EMPTY-unset}"', env=env)
        assert shown == f"1|{env['ODD']}||"
        assert sandbox.output("echo ${PLAIN-unset}") == "unset\n"

    def test_large_variables_are_passed(self, sandbox: RunningSandbox) -> None:
        env = {f"BIG{number}": "x" * 100_000 for number in range(5)}
        assert sandbox.output("echo ${#BIG0} ${#BIG4}", env=env) == "100000 100000\n"

    def test_what_no_process_can_be_given_is_a_backend_error(self, sandbox: RunningSandbox) -> None:
        with pytest.raises(BackendError, match="NUL"):
            sandbox.run("echo \0")
        with pytest.raises(BackendError, match="A=B"):
            sandbox.run("true", env={"A=B": "x"})
        assert sandbox.output("echo fine") == "fine\n"

    def test_long_commands_work(self, sandbox: RunningSandbox) -> None:
        assert sandbox.output(f"cat; echo {'x' * 300_000} | wc -c").strip() == "300001"

    def test_commands_are_bash_of_any_shape(self, sandbox: RunningSandbox) -> None:
        command = "a=(1 2)\ncat <<'END'\n$a \"é\" 'x'\nEND\necho ${a[1]} # end"
        assert sandbox.output(command) == "$a \"é\" 'x'\n2\n"
        assert sandbox.run("-c echo").returncode == 127
        assert sandbox.run("").returncode == 0

    def test_commands_start_in_the_workspace(self, launch: Launch) -> None:
        sandbox = launch({"here": ""})
        sandbox.output("cd /; true")
        assert sandbox.output("ls; touch new; ls /workspace") == "here\nhere\nnew\n"

    def test_the_working_directory_can_be_chosen(self, sandbox: RunningSandbox) -> None:
        sandbox.output("mkdir -p 'a b/c'; touch 'a b/c/here'")
        assert sandbox.output("ls", cwd="/workspace/a b/c") == "here\n"

    def test_a_missing_working_directory_is_a_failed_command(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("echo ran", cwd="/workspace/missing")
        assert result.returncode == 125
        assert result.stdout == ""
        assert "/workspace/missing" in result.stderr

    def test_commands_can_run_as_another_user(self, sandbox: RunningSandbox) -> None:
        if not self.runs_as_other_users:
            with pytest.raises(BackendError, match=r"^user: 'daemon'"):
                sandbox.run("true", user="daemon")
            return
        assert sandbox.output("id -un", user="nobody") == "nobody\n"
        assert sandbox.output("id -u; id -g", user="1234:99") == "1234\n99\n"
        sandbox.output("touch /logs/agent/x /logs/verifier/x", user="nobody")

    def test_an_unknown_user_is_a_backend_error(self, sandbox: RunningSandbox) -> None:
        with pytest.raises(BackendError, match="no-such-user"):
            sandbox.run("true", user="no-such-user")

    def test_long_output_is_cut_in_the_middle(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last")
        assert result.truncated
        assert len(result.stdout) < 5_000_000
        assert result.stdout.startswith("first\nxxx")
        assert result.stdout.endswith("xxx\nlast\n")

    def test_output_of_ordinary_length_is_whole(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("for i in {1..20000}; do echo line $i; done")
        assert result.stdout == "".join(f"line {number}\n" for number in range(1, 20_001))
        assert not result.truncated
