"""What a Dockerfile means to a backend that builds nothing from it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.errors import BuildError
from pytest_aecbench.tasks.dockerfile import Dockerfile, expand, read_dockerfile, split_words


class Context:
    """A build context to write files to."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, content: str = "") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def read(self, dockerfile: str, **base_env: str) -> Dockerfile:
        self.write("Dockerfile", dockerfile)
        return read_dockerfile(self.root / "Dockerfile", base_env)

    def copies(self, *instructions: str) -> dict[str, str]:
        """Return where instructions of an otherwise empty Dockerfile put which files."""
        read = self.read("\n".join(["FROM x", *instructions]))
        return {
            str(copy.target): copy.source.relative_to(self.root).as_posix()
            for copy in read.copies
            if copy.source.is_file()
        }

    def error(self, dockerfile: str) -> str:
        with pytest.raises(BuildError) as caught:
            self.read(dockerfile)
        assert "\n" not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    made = Context(tmp_path / "environment")
    for name in ("a.txt", "b.txt", "c.md", "data/one", "data/sub/two"):
        made.write(name)
    return made


# Lines


def test_instructions_are_read_line_by_line(context: Context) -> None:
    read = context.read("# a comment\n\nfrom x\n  workdir /app\nRUN a\nrun\tb\n")
    assert read.workdir == PurePosixPath("/app")
    assert read.notes == [
        "environment/Dockerfile:5: RUN a: not executed",
        "environment/Dockerfile:6: RUN b: not executed",
    ]


def test_continued_lines_are_one_instruction(context: Context) -> None:
    dockerfile = "FROM x\nENV A=1 \\\n# a comment between\n  B=2 \\  \n\n  C=3\nWORKDIR /a\\\npp\n"
    read = context.read(dockerfile)
    assert read.env == {"A": "1", "B": "2", "C": "3"}
    assert read.workdir == PurePosixPath("/app")


def test_here_documents_are_not_instructions(context: Context) -> None:
    read = context.read(
        "FROM x\nRUN <<EOF\nWORKDIR /inner\nEOF\nCOPY <<-'END' /x\n\tENV A=1\n\tEND\n"
        "RUN echo $((1<<COUNT)) <<< text\nWORKDIR /app\n"
    )
    assert read.workdir == PurePosixPath("/app")
    assert read.env == {}
    assert read.notes == [
        "environment/Dockerfile:2: RUN <<EOF: not executed",
        "environment/Dockerfile:5: COPY <<-'END' /x: left out (<<-END)",
        "environment/Dockerfile:8: RUN echo $((1<<COUNT)) <<< text: not executed",
    ]


def test_what_only_matters_to_a_container_is_ignored(context: Context) -> None:
    read = context.read('FROM x\nEXPOSE 80\nCMD ["a"]\nENTRYPOINT b\nLABEL a=b\nVOLUME /x\n')
    assert read == Dockerfile()


def test_another_user_is_noted(context: Context) -> None:
    read = context.read("FROM x\nUSER agent\n")
    assert read.notes == ["environment/Dockerfile:2: USER agent: has no effect"]


# WORKDIR, ENV, ARG


@pytest.mark.parametrize(
    ("lines", "workdir"),
    [
        ("", None),
        ("WORKDIR /app", "/app"),
        ("WORKDIR /app/", "/app"),
        ("WORKDIR a\nWORKDIR b\nWORKDIR ../c", "/a/c"),
        ("WORKDIR /a\nWORKDIR /b", "/b"),
        ("ENV H=/home\nWORKDIR $H/x", "/home/x"),
        ("ARG H=/home\nWORKDIR ${H}/x", "/home/x"),
        ('WORKDIR "/with space"', "/with space"),
    ],
)
def test_the_last_working_directory_counts(
    context: Context, lines: str, workdir: str | None
) -> None:
    found = context.read(f"FROM x\n{lines}\n").workdir
    assert found == (PurePosixPath(workdir) if workdir else None)


@pytest.mark.parametrize(
    ("line", "env"),
    [
        ("ENV A=1", {"A": "1"}),
        ("ENV A=1 B=two", {"A": "1", "B": "two"}),
        ("ENV A=", {"A": ""}),
        ("ENV A value with  spaces", {"A": "value with  spaces"}),
        ('ENV A="x y" B=z', {"A": "x y", "B": "z"}),
        (r"ENV A=x\ y", {"A": "x y"}),
        ("ENV A='$NOT'", {"A": "$NOT"}),
        (r"ENV A=\$NOT", {"A": "$NOT"}),
        (r'ENV A="\$NOT \"q\""', {"A": '$NOT "q"'}),
        ("ENV A=a=b", {"A": "a=b"}),
        ('ENV A=1\nENV B="$A$A ${A}2"', {"A": "1", "B": "11 12"}),
        ("ENV A=1\nENV A=2 B=$A", {"A": "2", "B": "1"}),
        ("ENV A=${NONE:-x}${NONE:+y}$NONE", {"A": "x"}),
        ("ENV B=1\nENV A=${B:-x}${B:+y}", {"B": "1", "A": "1y"}),
        ("ENV A=${B:-x y}", {"A": "x y"}),
        ("ENV PATH=/opt/x:$PATH", {"PATH": "/opt/x:/bin"}),
        ("ARG V=1\nENV A=$V", {"A": "1"}),
        ("ARG V\nENV A=x$V", {"A": "x"}),
        ("ENV V=env\nARG V=arg\nENV A=$V", {"V": "env", "A": "env"}),
    ],
)
def test_environment_variables_are_put_in(context: Context, line: str, env: dict[str, str]) -> None:
    assert context.read(f"FROM x\n{line}\n", PATH="/bin").env == env


def test_global_arguments_count_where_they_are_declared(context: Context) -> None:
    dockerfile = "ARG V=1\nARG W=2\nFROM x:$V\nARG V\nENV A=$V B=x$W\n"
    assert context.read(dockerfile).env == {"A": "1", "B": "x"}


# Stages


def test_only_the_last_stage_counts(context: Context) -> None:
    read = context.read(
        "FROM a AS build\nWORKDIR /build\nENV A=1\nCOPY a.txt .\nRUN make\nFROM b\nENV B=2\n"
    )
    assert read == Dockerfile(env={"B": "2"})


def test_a_stage_may_start_from_an_earlier_one(context: Context) -> None:
    read = context.read(
        "FROM a AS Base\nWORKDIR /app\nENV A=1\nCOPY a.txt .\nFROM other\nFROM base\nENV B=2\n"
    )
    assert read.workdir == PurePosixPath("/app")
    assert read.env == {"A": "1", "B": "2"}
    assert [str(copy.target) for copy in read.copies] == ["/app/a.txt"]


# COPY and ADD


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("COPY a.txt /x/", {"/x/a.txt": "a.txt"}),
        ("COPY a.txt /x", {"/x": "a.txt"}),
        ("ADD a.txt /x", {"/x": "a.txt"}),
        ("COPY a.txt .", {"/a.txt": "a.txt"}),
        ("WORKDIR /app\nCOPY a.txt .", {"/app/a.txt": "a.txt"}),
        ("WORKDIR /app\nCOPY a.txt ./", {"/app/a.txt": "a.txt"}),
        ("WORKDIR /app\nCOPY a.txt renamed", {"/app/renamed": "a.txt"}),
        ("WORKDIR /app\nCOPY a.txt sub/", {"/app/sub/a.txt": "a.txt"}),
        ("WORKDIR /app\nCOPY a.txt /app", {"/app/a.txt": "a.txt"}),
        (
            "COPY data /d\nCOPY a.txt /d",
            {"/d/one": "data/one", "/d/sub/two": "data/sub/two", "/d/a.txt": "a.txt"},
        ),
        ("COPY a.txt b.txt /x/", {"/x/a.txt": "a.txt", "/x/b.txt": "b.txt"}),
        ("COPY *.txt /x/", {"/x/a.txt": "a.txt", "/x/b.txt": "b.txt"}),
        ("COPY [ab].txt /x/", {"/x/a.txt": "a.txt", "/x/b.txt": "b.txt"}),
        ("COPY ?.md /x/", {"/x/c.md": "c.md"}),
        ("COPY data /x", {"/x/one": "data/one", "/x/sub/two": "data/sub/two"}),
        ("COPY data/ /x/", {"/x/one": "data/one", "/x/sub/two": "data/sub/two"}),
        ("COPY data/sub/../one /x", {"/x": "data/one"}),
        ("COPY /a.txt /x", {"/x": "a.txt"}),
        ('COPY ["a.txt", "/with space/"]', {"/with space/a.txt": "a.txt"}),
        ("COPY --chown=1:1 --chmod=755 --link a.txt /x", {"/x": "a.txt"}),
        ("ENV N=a\nARG E=txt\nCOPY $N.$E /$N", {"/a": "a.txt"}),
    ],
)
def test_copies_go_where_docker_puts_them(
    context: Context, lines: str, expected: dict[str, str]
) -> None:
    assert context.copies(lines) == expected


def test_a_whole_context_is_copied_with_its_empty_directories(context: Context) -> None:
    (context.root / "empty").mkdir()
    read = context.read("FROM x\nWORKDIR /app\nCOPY . .\n")
    assert [str(copy.target) for copy in read.copies] == [
        "/app/Dockerfile",
        "/app/a.txt",
        "/app/b.txt",
        "/app/c.md",
        "/app/data",
        "/app/data/one",
        "/app/data/sub",
        "/app/data/sub/two",
        "/app/empty",
    ]


def test_modes_are_kept_where_they_are_given(context: Context) -> None:
    read = context.read("FROM x\nCOPY --chmod=0755 a.txt /a\nCOPY b.txt /b\n")
    assert [copy.mode for copy in read.copies] == [0o755, None]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("COPY --from=build /x /y", "--from"),
        ("COPY --parents a.txt /y", "--parents"),
        ("COPY --exclude=b a.txt /y", "--exclude"),
        ("ADD https://example.com/x /y", "https://example.com/x"),
        ("ADD git@example.com:x.git /y", "git@example.com:x.git"),
        ("ADD pack.tar.gz /y", "unpacking pack.tar.gz"),
    ],
)
def test_what_cannot_be_copied_is_noted(context: Context, line: str, reason: str) -> None:
    context.write("pack.tar.gz")
    read = context.read(f"FROM x\n{line}\n")
    assert read.copies == []
    assert read.notes == [f"environment/Dockerfile:2: {line}: left out ({reason})"]


def test_an_archive_is_copied_as_it_is(context: Context) -> None:
    context.write("pack.tar.gz")
    assert context.copies("COPY pack.tar.gz /y/") == {"/y/pack.tar.gz": "pack.tar.gz"}


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        ("", {"Dockerfile", "a.txt", "b.txt", "c.md", "data/one", "data/sub/two"}),
        ("# c.md\n\n*.txt\nDockerfile\n", {"c.md", "data/one", "data/sub/two"}),
        ("data\n/Dockerfile", {"a.txt", "b.txt", "c.md"}),
        ("data/*\n!data/sub\nDockerfile\n*.*", {"data/sub/two"}),
        ("**/two\nDockerfile\n?.txt\n[abc].md", {"data/one"}),
        ("*\n!data/one", {"data/one"}),
    ],
)
def test_what_dockerignore_names_is_not_in_the_context(
    context: Context, ignored: str, left: set[str]
) -> None:
    context.write(".dockerignore", f"{ignored}\n.dockerignore\n")
    assert set(context.copies("COPY . /x/").values()) == left


def test_a_rule_may_bring_back_part_of_an_ignored_directory(context: Context) -> None:
    context.write(".dockerignore", "*\n!data/one\n")
    assert context.copies("COPY data /x") == {"/x/one": "data/one"}


# Mistakes


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        ("", "environment/Dockerfile: has no FROM; a build starts from an image"),
        ("# nothing\n", "environment/Dockerfile: has no FROM; a build starts from an image"),
        ("RUN x", "environment/Dockerfile:1: RUN comes before FROM; a build starts from an image"),
        ("FROM", "environment/Dockerfile:1: FROM has no arguments"),
        (
            "FROM a b",
            "environment/Dockerfile:1: FROM is malformed; write FROM <image> [AS <name>]",
        ),
        ("FROM x\n\nCOPY a.txt", "environment/Dockerfile:3: COPY needs a source and a destination"),
        (
            "FROM x\nCOPY none /x",
            "environment/Dockerfile:2: 'none' matches nothing in the build context",
        ),
        (
            "FROM x\nCOPY *.none /x",
            "environment/Dockerfile:2: '*.none' matches nothing in the build context",
        ),
        (
            "FROM x\nCOPY ../task.toml /x",
            "environment/Dockerfile:2: '../task.toml' leaves the build context",
        ),
        (
            "FROM x\nCOPY link /x",
            "environment/Dockerfile:2: 'link' leaves the build context",
        ),
        (
            "FROM x\nCOPY a.txt b.txt /x",
            "environment/Dockerfile:2: several sources need a directory; end '/x' with '/'",
        ),
        ("FROM x\nENV A='1", 'environment/Dockerfile:2: a quote is not closed in "A=\'1"'),
        ("FROM x\nENV A=1 B", "environment/Dockerfile:2: 'B' has no value; write ENV NAME=value"),
    ],
)
def test_a_mistake_is_told_in_one_line(context: Context, dockerfile: str, message: str) -> None:
    (context.root / "link").symlink_to("/etc/passwd")
    assert context.error(dockerfile) == message


def test_what_would_be_right_is_listed(context: Context) -> None:
    assert context.error("FROM x\nCOPPY a b").endswith(
        "unknown instruction 'COPPY'; use one of ADD, ARG, CMD, COPY, ENTRYPOINT, ENV, EXPOSE, "
        "FROM, HEALTHCHECK, LABEL, MAINTAINER, ONBUILD, RUN, SHELL, STOPSIGNAL, USER, VOLUME, "
        "WORKDIR"
    )
    assert context.error("FROM x\nCOPY --form=a b c").endswith(
        "unknown flag '--form'; use one of --checksum, --chmod, --chown, --exclude, --from, "
        "--keep-git-dir, --link, --parents, --unpack"
    )


def test_a_file_that_is_not_text_is_told(context: Context) -> None:
    (context.root / "Dockerfile").write_bytes(b"FROM \xff\n")
    with pytest.raises(
        BuildError, match=r"^environment/Dockerfile: is not text; write it in UTF-8$"
    ):
        read_dockerfile(context.root / "Dockerfile")


# Words


@given(st.lists(st.from_regex(r"[\w./:=-]+", fullmatch=True)))
def test_plain_words_are_split_at_spaces(words: list[str]) -> None:
    assert split_words("  ".join(words), {}) == words


@given(st.text(st.characters(blacklist_characters="'", blacklist_categories=["Cs"])))
def test_single_quotes_keep_everything(text: str) -> None:
    assert expand(f"'{text}'", {"a": "b"}) == text


@given(st.text(st.characters(blacklist_categories=["Cs"])))
def test_any_dockerfile_is_read_or_told_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "Dockerfile"
    path.write_text(f"FROM x\n{text}", newline="")
    message = ""
    try:
        read_dockerfile(path)
    except BuildError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1
