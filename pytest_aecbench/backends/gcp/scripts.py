"""The shell scripts that run inside a Batch task, as root, in the containers of its two runnables.

They need bash, GNU tar, coreutils and findutils, and with ``hide_bucket`` util-linux. A trial's
files are objects in one directory of the bucket, which is a volume of the task:

- ``in-INDEX.tar`` has, in ``agent`` and ``verify``, a request as ``remote.requests`` writes it,
  and ``mode``: ``separate``, ``shared`` or ``agent`` if there is nothing to verify;
- ``agent-INDEX.tar`` and ``verify-INDEX.tar`` are what the runnables leave. ``done`` of the last
  request is the last entry, so an archive with it is complete.

The volume also has other trials' files, tests among them. So the outer script, which sees it,
hands a request to an inner one that does not, in a mount namespace of its own and without the
capability to leave it. After an agent has begun, the outer script uses no program of the container
any more, because the agent may have replaced it; bash itself has been loaded.
"""

from __future__ import annotations

from pytest_aecbench.backends.shared.shell import SWEEP

__all__ = ["MOUNT", "outer"]

MOUNT = "/mnt/disks/aecbench"
_GUARD_SEC = 300  # for copies before and after the command, which has a deadline of its own


def outer(*, hide: bool) -> str:
    """Return the script of a runnable; its argument is ``agent`` or ``verify``."""
    values = {"MOUNT": MOUNT, "GUARD": str(_GUARD_SEC), "HIDE": "1" if hide else ""}
    script = _OUTER
    for name, value in values.items():
        script = script.replace(f"@{name}@", value)
    return script


# Runs one request and packs what it left. Its arguments: the state's directory, the working
# directory, the phase, and "pack" to write the archive to descriptor 3.
_INNER = (
    SWEEP
    + r"""
state=$1 workdir=$2 phase=$3
cd /
status $$
since=${fields[19]}
begun=$EPOCHREALTIME
bash "$state/$phase/run" "$state/$phase" </dev/null >"$state/$phase/said" 2>&1 3>&-
printf '%s %s\n' "$begun" "$EPOCHREALTIME" >"$state/$phase/times"
sweep "$since"
[[ $4 = pack ]] || exit 0
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
what=()
for one in agent verify; do
  [[ ! -d $state/$one ]] || what+=(--no-recursion -C "$state" "$one" --recursion)
  for file in out err times said; do
    [[ ! -f $state/$one/$file ]] || what+=(-C "$state" "$one/$file")
  done
  [[ $one = "$phase" || ! -f $state/$one/done ]] || what+=(-C "$state" "$one/done")
done
[[ ! -d /logs ]] || what+=(-C / logs)
[[ $phase = verify && ! -d $state/agent || ! -d $workdir ]] || what+=(-C "$workdir" .)
LC_ALL=C tar -cSf - --warning=no-file-ignored --ignore-failed-read \
  --transform='s,^\.\(/\|$\),workspace\1,S' "${what[@]}" -C "$state" "$phase/done" >&3
"""
)

_OUTER = (
    r"""
phase=$1 mount=@MOUNT@ index=$BATCH_TASK_INDEX
unset ${!BATCH_@}
cd /
fail() { echo "aecbench: $*" >&2; exit 1; }
state=$(mktemp -d) || fail "no temporary directory"
inputs=$mount/in-$index.tar
[[ -f $inputs ]] || fail "$inputs is missing"
unpack() { tar -xf "$inputs" -C "$state" "$@" || fail "$inputs cannot be read"; }
unpack mode workdir seconds
read -r mode <"$state/mode"; read -r seconds <"$state/seconds"
IFS= read -r workdir <"$state/workdir"
[[ $phase = agent || $mode = separate ]] || exit 0
unpack "$phase"
read -rd '' inner <<'INNER'
"""
    + _INNER
    + r"""
INNER

# Runs a command that sees an empty directory instead of the volume, and cannot change that.
hidden() {
  if [[ -z "@HIDE@" ]]; then exec "$@"; fi
  exec unshare --mount -- bash -c '
    mount -t tmpfs -o size=4k,mode=0 none "$1" || exit
    shift
    exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin -- "$@"' hidden "$mount" "$@"
}

# Lets the inner script do a request, but not for ever: it may be stopped by what it has started.
perform() {
  sleep $((seconds + @GUARD@)) 3>&- &
  local guard=$! ends=$((SECONDS + seconds + @GUARD@)) child
  (hidden bash -c "$inner" inner "$state" "$workdir" "$@") &
  child=$!
  wait -n "$child" "$guard"
  while kill -0 "$child" 2>/dev/null && ((SECONDS < ends)); do wait "$child"; done
  kill -KILL "$child" "$guard" 2>/dev/null
  wait "$child" "$guard" 2>/dev/null
}

if [[ "@HIDE@" ]]; then
  (hidden true) || fail "the bucket cannot be hidden from the agent"
fi
exec 3>"$mount/$phase-$index.tar"
if [[ $phase = verify ]]; then
  # Links that lead outside, and all that is neither a file nor a directory, stay behind.
  left=$mount/agent-$index.tar
  if [[ -s $left && $workdir != / ]]; then
    mkdir -p "$workdir" && find "$workdir" -mindepth 1 -delete
    tar -xf "$left" --no-same-owner --strip-components=1 -C "$workdir" workspace 2>/dev/null
    (
      cd "$workdir" || exit
      here=$(pwd -P)
      find . ! -type f ! -type d ! -type l -delete
      while IFS= read -rd '' link; do
        to=$(readlink -m -- "$link")
        [[ $(readlink -- "$link") != /* && $to/ = "$here"/* ]] || rm -f -- "$link"
      done < <(find . -type l -print0)
      chmod -R u+rwX,a+rX,ug-s .
    )
  fi
  perform verify pack
elif [[ $mode = shared ]]; then
  perform agent
  unpack verify
  perform verify pack
else
  perform agent pack
fi
exec 3>&-
exit 0
"""
)
