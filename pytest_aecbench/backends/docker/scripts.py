"""The shell scripts that run inside a container.

They use bash builtins where possible, because an agent may have replaced any program.
"""

from __future__ import annotations

from pytest_aecbench.backends.shared.shell import CLEAR, MARK_OF

__all__ = ["KEEP_ALIVE", "KILL_NEWER", "OOM_KILLS", "RUN"]

# The first process waits for ever, reaps orphans and ignores every signal from inside. It has no
# child that could be killed, so `kill -1` clears the container without ending it.
KEEP_ALIVE = "trap '' {1..16} {18..31} {34..64}; while read -r; do :; done"

# Runs one command. Its input comes through stdin, each field ended by NUL: a nonce; the steps
# ("kill" every other process, "make" the working directory, "first" make the directories that
# every sandbox has); the working directory, the size of the archive, the command, the paths that
# the archive replaces and an empty one; the archive.
#
# Lines that start with the nonce are the script's own: "failed <what>"; "prepared" without a
# command; else "started <start time>" before the command's output and "ended <exit code>" after
# it, on both streams, because processes left running keep the streams open. Each is written at
# once, up to its newline, so that none is cut short when the script is killed.
RUN = (
    r"""
field() { IFS= read -rd '' "$1"; }
fail() { printf '%s failed %s\n' "$nonce" "$1"; exit 125; }
field nonce; field steps; field cwd; field size; field command
targets=()
while field target && [[ $target ]]; do targets+=("$target"); done
path=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin

if [[ $steps = *kill* ]]; then
  # A process with much memory, or on a busy machine, takes seconds to die.
  for ((until = SECONDS + 20; ; )); do
    kill -KILL -1 2>/dev/null
    left=(/proc/[0-9]*)
    ((${#left[@]} > 2)) || break
    ((SECONDS < until)) || fail kill
    sleep 0.01
  done
fi

if [[ $steps = *first* ]]; then
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
[[ $command ]] || { printf '%s prepared\n' "$nonce"; exit; }

[[ $steps = *make* ]] && mkdir -p -- "$cwd" 2>/dev/null
PATH=$path
exec 3>&2 2>/dev/null
IFS= read -rd '' stat </proc/$$/stat
fields=(${stat##*) })
printf '%s started %s\n' "$nonce" "${fields[19]}"
if ! cd -- "$cwd"; then
  printf '%s: no such directory\n' "$cwd" >&3
  code=125
elif ((${#command} < 30000)); then
  bash -c -- "$command" </dev/null 2>&3 3>&-
  code=$?
else  # too long for an argument
  (unset nonce; exec </dev/null 2>&3 3>&-; eval "$command")
  code=$?
fi
printf '%s ended %s\n' "$nonce" "$code"
printf '%s ended %s\n' "$nonce" "$code" >&3
"""
)

# Kills the processes that started no earlier than a request ($1), except those of another request
# that is still running, by its mark ($2...). This script and the next wait for a line of input,
# because a client may lose output from before it listens, and end their output with "done".
#
# Root has no right to trace here, so that it cannot read the environments of other users'
# processes. Those without a readable mark are spared while other requests run; the script is run
# as the request's user before.
#
# A killed process is there until it has had its turn on the processor and given its memory back,
# so rounds that find only such ones pause. New ones are met without a pause: they may be many.
KILL_NEWER = (
    r"""
read -r
exec 2>/dev/null
since=$1; shift
"""
    + MARK_OF
    + r"""
spared() {
  local other
  mark_of "$1"
  for other in "${@:2}"; do [[ $mark != "$other" ]] || return 0; done
  [[ ! $mark ]] || return 1
  [[ ! $hidden ]] || return 0
  [[ $empty ]] && ((SECONDS < 2)) && left=1
}
end() {
  kill -KILL "$1" || return
  left=1
  [[ ${killed[$1]} = "$2" ]] || new=1
  killed[$1]=$2
}
killed=()
while ((SECONDS < 6)); do
  left= new= found=()
  for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    ((pid == 1 || pid == $$)) && continue
    status "$pid" && ((fields[19] >= since)) || continue
    start=${fields[19]}
    if (($# == 0)); then end "$pid" "$start"
    elif ! spared "$pid" "$@"; then found[pid]=$start; fi
  done
  # Not before, because ancestors that are killed have no children any more.
  for pid in "${!found[@]}"; do end "$pid" "${found[pid]}"; done
  [[ $left ]] || { echo done; exit; }
  [[ $new ]] || read -rt 0.02
done
"""
)

# Prints how many processes of the container the kernel has killed because memory ran out.
OOM_KILLS = r"""
read -r
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r name count; do
    [[ $name != oom_kill ]] || echo "$count"
  done 2>/dev/null <"$file"
done 2>/dev/null
echo done
"""
