"""Trees that an agent has made are measured and removed, whatever they are like."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pytest_aecbench.host.homes import remove_tree, stored_bytes

DIG = "for _ in $(seq 30); do mkdir $0 && cd $0; done; head -c 1048576 /dev/zero > file"


def test_stored_bytes_are_those_of_the_disk(tmp_path: Path) -> None:
    tree, megabyte = tmp_path / "tree", bytes(1 << 20)
    (tree / "locked").mkdir(parents=True)
    (tree / "locked" / "file").write_bytes(megabyte)
    (tree / "link").hardlink_to(tree / "locked" / "file")
    (tree / "elsewhere").symlink_to(tmp_path)
    (tmp_path / "other").write_bytes(megabyte)
    with (tree / "hole").open("wb") as file:
        file.truncate(1 << 34)
    subprocess.run(["bash", "-c", DIG, "x" * 200], cwd=tree, check=True)  # longer than a path
    (tree / "locked").chmod(0)
    assert 2 << 20 <= stored_bytes(tree, tmp_path / "missing") < 3 << 20
    remove_tree(tree)
    assert stored_bytes(tree) == 0
