"""``tests/aec_verify.py`` is supplied to tasks that import it and have none of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_aecbench import verify
from pytest_aecbench.errors import TaskError
from pytest_aecbench.tasks.digest import directory_digest, file_digests, task_digest
from pytest_aecbench.tasks.supplied import HELPER, supplied_files
from pytest_aecbench.tasks.task import Task
from tests.tasks import write_least, write_tree

SOURCE = Path(verify.__file__)
IMPORT = "from aec_verify import Number, verify\n"


def write_verifier(directory: Path, text: str | bytes = IMPORT) -> Path:
    return write_tree(write_least(directory), {"tests/verify.py": text})


@pytest.mark.parametrize(
    "text",
    [
        IMPORT,
        "import json\nfrom aec_verify import (\n    Number,\n)\n",
        "import aec_verify\n",
        "import json, aec_verify as grading\n",
        "import os.path as p, json,aec_verify\r\n",
        "def grade():\n\tfrom  aec_verify\timport*\n",
        "try: import aec_verify\nexcept ImportError: pass\n",
        "import sys; from aec_verify import verify\n",
        b"\xef\xbb\xbffrom aec_verify import verify\n",
        b"# -*- coding: latin-1 -*-\n# \xe9\nfrom aec_verify import verify\n",
        "match 1:  # what an older Python cannot parse\n    case 1:\n        import aec_verify\n",
    ],
)
def test_a_task_that_imports_the_module_is_supplied_with_it(
    tmp_path: Path, text: str | bytes
) -> None:
    assert supplied_files(write_verifier(tmp_path, text)) == {HELPER: SOURCE}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# from aec_verify import verify\n",
        "import json  # not aec_verify\n",
        "x = 1  # as in: import aec_verify\n",
        "print('; import aec_verify')\n",
        "from aec_verify_2 import verify\n",
        "import aec_verifying\n",
        "import my_aec_verify\n",
        "from .aec_verify import verify\n",
        "aec_verify = 1\n",
    ],
)
def test_a_task_that_only_mentions_the_module_is_not(tmp_path: Path, text: str) -> None:
    assert supplied_files(write_verifier(tmp_path, text)) == {}


def test_only_python_files_in_tests_count(tmp_path: Path) -> None:
    files = dict.fromkeys(
        ("solution/solve.py", "tools/x.py", "tests/a.txt", "tests/.x/a.py"), IMPORT
    )
    assert supplied_files(write_tree(write_least(tmp_path), files)) == {}
    assert supplied_files(tmp_path / "nowhere") == {}


def test_a_module_further_down_that_imports_it_counts(tmp_path: Path) -> None:
    write_tree(write_least(tmp_path), {"tests/grading/beams.py": IMPORT})
    assert supplied_files(tmp_path) == {HELPER: SOURCE}


@pytest.mark.parametrize(
    "name", [HELPER, "tests/lib/aec_verify.py", "tests/aec_verify/__init__.py"]
)
def test_a_task_keeps_a_module_of_its_own(tmp_path: Path, name: str) -> None:
    write_tree(write_verifier(tmp_path), {name: ""})
    assert supplied_files(tmp_path) == {}
    assert Task.load(tmp_path).verifier_uploads() == {"/tests": tmp_path / "tests"}


def test_what_is_no_readable_file_is_left_to_those_who_need_it(tmp_path: Path) -> None:
    write_least(tmp_path)
    os.mkfifo(tmp_path / "tests/pipe.py")
    (tmp_path / "tests/dangling.py").symlink_to("nowhere")
    assert supplied_files(tmp_path) == {}


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    write_verifier(tmp_path, "pass\n")
    (tmp_path / "tests/other.py").symlink_to("/proc/self/mem")  # which root cannot read either
    with pytest.raises(TaskError, match=r"Input/output error; make it readable\Z"):
        supplied_files(tmp_path)


def test_the_file_is_uploaded_after_the_directory_it_goes_into(tmp_path: Path) -> None:
    uploads = Task.load(write_verifier(tmp_path)).verifier_uploads()
    assert list(uploads.items()) == [("/tests", tmp_path / "tests"), (f"/{HELPER}", SOURCE)]


def test_a_task_has_the_same_digest_with_a_copy_and_without(tmp_path: Path) -> None:
    files = {"tests/aaa": "", "tests/zzz": "", "tests.d/x": ""}  # which come before and after
    path = write_tree(write_verifier(tmp_path), files)
    supplied, digests = task_digest(path), file_digests(path)
    write_tree(path, {HELPER: SOURCE.read_bytes()})
    assert (task_digest(path), file_digests(path)) == (supplied, digests)
    assert list(digests) == sorted(digests)
    assert digests[HELPER].kind == "file"


def test_a_digest_covers_the_content_of_the_supplied_file(tmp_path: Path) -> None:
    path = write_verifier(tmp_path)
    before = task_digest(path)
    write_tree(path, {HELPER: SOURCE.read_bytes() + b"\n"})
    assert task_digest(path) != before


def test_the_digest_of_a_task_without_the_import_is_that_of_its_files(tmp_path: Path) -> None:
    path = write_verifier(tmp_path, "import json\n")
    assert task_digest(path) == directory_digest(path)


def test_the_digest_of_a_directory_covers_nothing_but_its_files(tmp_path: Path) -> None:
    path = write_verifier(tmp_path)
    without = directory_digest(path)
    assert without != task_digest(path)
    write_tree(path, {HELPER: SOURCE.read_bytes()})
    assert without != directory_digest(path) == task_digest(path)
