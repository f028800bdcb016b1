"""What a trivial trial costs on the local backend, against a bare shell loop that does the same.

The loop starts one mount and pid namespace per task over an overlay of ``/``, runs solution and
verifier in it and reads the reward: no pytest, no Python, no records. It needs root.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generated import write_tasks

LOOP = r"""
set -eu
export box
for task in "$1"/tasks/*/*; do
  box=$(mktemp -d)
  mkdir -p "$box"/top "$box"/workspace "$box"/logs/verifier "$box"/solution "$box"/tests
  cp "$task"/solution/* "$box"/solution
  cp "$task"/tests/* "$box"/tests
  unshare --mount --pid --fork --kill-child bash -euc '
    mount -t tmpfs tmpfs "$box"/top
    mkdir "$box"/top/upper "$box"/top/work "$box"/top/root
    root=$box/top/root
    mount -t overlay overlay "$root" \
      -o lowerdir=/,upperdir="$box"/top/upper,workdir="$box"/top/work
    mkdir -p "$root"/workspace "$root"/logs "$root"/solution "$root"/tests
    for name in workspace logs solution tests; do mount --bind "$box/$name" "$root/$name"; done
    mount -t proc proc "$root"/proc
    mount --rbind /dev "$root"/dev
    exec chroot "$root" bash -c "
      cd /workspace; bash /solution/solve.sh </dev/null; bash /tests/test.sh </dev/null"
  '
  read -r reward <"$box"/logs/verifier/reward.txt
  test "$reward" = 1
  rm -rf "$box"
done
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("local trials: the floor needs root; run this as root")
    floors, costs = [], []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            write_tasks(root, arguments.trials)
            start = time.perf_counter()
            subprocess.run(["bash", "-c", LOOP, "loop", name], check=True)
            floors.append(time.perf_counter() - start)
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "pytest", "-qq", "tasks", "--aec-local-mode=namespaces"],
                cwd=root,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            costs.append(time.perf_counter() - start)
    floor, cost = min(floors) / arguments.trials, min(costs) / arguments.trials
    print(
        f"local trials: {cost * 1000:.0f} ms each, bare loop {floor * 1000:.0f} ms each, "
        f"ratio {cost / floor:.2f} ({arguments.trials} trials, best of {arguments.rounds})"
    )


if __name__ == "__main__":
    main()
