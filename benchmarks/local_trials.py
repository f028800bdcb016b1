"""What a trivial trial costs on the local backend, against a bare shell loop that does the same.

The loop starts one mount and pid namespace per task over an overlay of ``/``, runs solution and
verifier in it and reads the reward: no pytest, no Python, no records. It needs root. Trials whose
verifier shares the agent's sandbox do the same as the loop; a verifier in a sandbox of its own, as
is the default, needs two of them.
"""

from __future__ import annotations

import argparse
import os
import resource
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
    for mode in ("shared", "separate"):
        floors, costs = [], []
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as name:
                root = Path(name)
                write_tasks(root, arguments.trials, mode)
                floors.append(_measured(["bash", "-c", LOOP, "loop", name], root))
                argv = [sys.executable, "-m", "pytest", "-qq", "tasks"]
                costs.append(_measured([*argv, "--aec-local-mode=namespaces"], root))
        for number, what in enumerate(("wall", "CPU")):
            floor, cost = (min(one[number] for one in many) for many in (floors, costs))
            each, bare = cost / arguments.trials * 1000, floor / arguments.trials * 1000
            print(
                f"local trials, {mode} verifier, {what} time: {each:.0f} ms each, bare loop "
                f"{bare:.0f} ms each, ratio {cost / floor:.2f} ({arguments.trials} trials, best of "
                f"{arguments.rounds})"
            )


def _measured(argv: list[str], directory: Path) -> tuple[float, float]:
    """Return the seconds that a command takes, by the clock and of processors."""
    start, before = time.perf_counter(), _spent()
    subprocess.run(argv, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, _spent() - before


def _spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
