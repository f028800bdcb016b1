"""The shell scripts that run inside a container.

They are bash alone as far as that goes: whatever else they call, an agent may have replaced.
"""

from __future__ import annotations

from pytest_aecbench.backends.shared.shell import CLEAR

__all__ = ["KEEP_ALIVE", "KILL_NEWER", "OOM_KILLS", "RUN"]

# The first process waits for ever, reaps orphans and ignores every signal from inside. It has no
# child that could be killed, so that `kill -1` can clear the container without ending it.
KEEP_ALIVE = "trap '' {1..16} {18..31} {34..64}; while read -r; do :; done"

# Runs one command. All it needs comes through stdin, each field ended by NUL: a secret word; what
# is wanted ("kill" every other process, "make" the working directory, "first" of all make what
# every sandbox has); the working directory, the size of the archive, the command, the paths that
# the archive replaces and an empty one; the archive.
#
# What starts with the word is its own: "failed <what>"; "prepared" where there is no command; else
# "started <start time>" before the command's output and "ended <exit code>" after it, on both
# streams: what is left running keeps them open, so their end is not the command's. Each is written
# at once, up to its newline, so that none is cut short when the script is killed.
RUN = (
    r"""
field() { IFS= read -rd '' "$1"; }
fail() { printf '%s failed %s\n' "$word" "$1"; exit 125; }
field word; field wanted; field cwd; field size; field command
targets=()
while field target && [[ $target ]]; do targets+=("$target"); done
path=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin

if [[ $wanted = *kill* ]]; then
  for ((try = 0; ; try++)); do
    kill -KILL -1 2>/dev/null
    left=(/proc/[0-9]*)
    ((${#left[@]} > 2)) || break
    ((try < 200)) || fail kill
    sleep 0.01
  done
fi

if [[ $wanted = *first* ]]; then
  (umask 0; mkdir -p /logs/agent /logs/verifier)
  mkdir -p /tests /workspace
fi
"""
    + CLEAR
    + r"""
if [[ $targets ]]; then
  type tar head >/dev/null 2>&1 || ((size == 0)) || fail tar
  for target in "${targets[@]}"; do clear "$target" || fail place; done
  ((size == 0)) || head -c "$size" | tar -xpf - -C / || fail place
fi
[[ $command ]] || { printf '%s prepared\n' "$word"; exit; }

[[ $wanted = *make* ]] && mkdir -p -- "$cwd" 2>/dev/null
PATH=$path
exec 3>&2 2>/dev/null
IFS= read -rd '' stat </proc/$$/stat
fields=(${stat##*) })
printf '%s started %s\n' "$word" "${fields[19]}"
if ! cd -- "$cwd"; then
  printf '%s: no such directory\n' "$cwd" >&3
  code=125
elif ((${#command} < 30000)); then
  bash -c -- "$command" </dev/null 2>&3 3>&-
  code=$?
else  # too long for an argument
  (unset word; exec </dev/null 2>&3 3>&-; eval "$command")
  code=$?
fi
printf '%s ended %s\n' "$word" "$code"
printf '%s ended %s\n' "$word" "$code" >&3
"""
)

# Kills what started no earlier than a request ($1), other than what carries the mark of another
# request that is still running ($2...). It and the next wait for a line of input, since a client
# may lose what is printed before it listens, and end their output with "done".
KILL_NEWER = r"""
read -r
exec 2>/dev/null
since=$1; shift
spared() {
  local entry other
  while IFS= read -rd '' entry; do
    for other; do [[ $entry != "AECBENCH_REQUEST=$other" ]] || return 0; done
  done <"$path/environ"
  return 1
}
for ((round = 0; round < 100; round++)); do
  left=
  for path in /proc/[0-9]*; do
    pid=${path#/proc/} stat=
    ((pid == 1 || pid == $$)) && continue
    IFS= read -rd '' stat <"$path/stat"
    [[ $stat ]] || continue
    fields=(${stat##*) })
    [[ ${fields[0]} != Z ]] && ((fields[19] >= since)) || continue
    (($# == 0)) || ! spared "$@" || continue
    kill -KILL "$pid"
    left=1
  done
  [[ $left ]] || { echo done; exit; }
done
"""

# Prints how many processes of the container the kernel has killed for want of memory.
OOM_KILLS = r"""
read -r
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r name count; do
    [[ $name != oom_kill ]] || echo "$count"
  done 2>/dev/null <"$file"
done 2>/dev/null
echo done
"""
