"""The shell scripts that run inside a Batch task, as root, in the containers of its two runnables.

They need bash, GNU tar, coreutils and findutils, and with ``hide_bucket`` util-linux. A trial's
files are objects in one directory of the bucket, which is a volume of the task:

- ``in-INDEX.tar`` has, in ``agent`` and ``verify``, a request as ``remote.requests`` writes it,
  and ``mode``: ``separate``, ``shared``, ``agent`` if there is nothing to verify, or ``single``;
- ``agent-INDEX.tar`` and ``verify-INDEX.tar`` are what the runnables leave. ``done`` of the last
  request is the last entry, so an archive with it is complete;
- ``agent-INDEX.log`` and ``verify-INDEX.log`` say how far the runnables came, and what their
  commands printed. They are written piece by piece, so that they outlive the machine.

A ``single`` command is one of several of a sandbox, each of which is a task of its own. It starts
from the files that the command ``before`` it left in ``state-BEFORE.tar`` (the working directory
and the logs) and ``rest-BEFORE.tar``, and leaves its own. Its index is its number.

The volume also has other trials' files, tests among them. So the outer script, which sees it,
hands a request to an inner one that does not, in a mount namespace of its own and without the
capability to leave it. After an agent has begun, the outer script uses no program of the container
any more, because the agent may have replaced it; bash itself has been loaded.
"""

from __future__ import annotations

from pytest_aecbench.backends.shared.shell import SWEEP

__all__ = ["CARRIED", "GUARD_SEC", "MOUNT", "outer"]

MOUNT = "/mnt/disks/aecbench"
GUARD_SEC = 300  # for copies before and after the command, which has a deadline of its own
_LOG_SEC = 30
# Directories whose files go from one single command to the next, besides /logs and the working
# directory. Agents write there; others are the image's.
CARRIED = ("tests", "solution", "tmp", "root", "home")


def outer(*, hide: bool) -> str:
    """Return the script of a runnable; it gets ``agent`` or ``verify``, and perhaps an index."""
    values = {
        "MOUNT": MOUNT,
        "GUARD": str(GUARD_SEC),
        "HIDE": "1" if hide else "",
        "LOG_SEC": str(_LOG_SEC),
        "CARRIED": " ".join(CARRIED),
    }
    script = _OUTER
    for name, value in values.items():
        script = script.replace(f"@{name}@", value)
    return script


# Runs one request and packs what it left. Its arguments: the state's directory, the working
# directory, the phase, and "pack" to write the archive to descriptor 3, or "save" to write the
# files to descriptors 4 and 5 and the result to 3.
_INNER = (
    SWEEP
    + r"""
state=$1 workdir=$2 phase=$3
cd /
status $$
since=${fields[19]}
begun=$EPOCHREALTIME
bash "$state/$phase/run" "$state/$phase" </dev/null >"$state/$phase/said" 2>&1 3>&- 4>&- 5>&-
printf '%s %s\n' "$begun" "$EPOCHREALTIME" >"$state/$phase/times"
sweep "$since"
[[ $4 ]] || exit 0
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Sparse, because a file of nothing but holes would fill the disk.
archive() {
  LC_ALL=C tar -cSf - --warning=no-file-ignored --ignore-failed-read --anchored \
    --transform='s,^\.\(/\|$\),workspace\1,S' -T /dev/null "$@"
  (($? < 2)) || exit 1
}
results=() files=()
for one in agent verify; do
  [[ ! -d $state/$one ]] || results+=(--no-recursion -C "$state" "$one" --recursion)
  for file in out err times said; do
    [[ ! -f $state/$one/$file ]] || results+=(-C "$state" "$one/$file")
  done
  [[ $one = "$phase" || ! -f $state/$one/done ]] || results+=(-C "$state" "$one/done")
done
[[ ! -d /logs ]] || files+=(-C / logs)
[[ $phase = verify && ! -d $state/agent || ! -d $workdir ]] || files+=(-C "$workdir" .)
if [[ $4 = save ]]; then
  archive "${files[@]}" >&4
  files=() rest=()
  for one in @CARRIED@; do [[ ! -e /$one && ! -L /$one ]] || rest+=("$one"); done
  archive --one-file-system --exclude="${state#/}" --exclude="${workdir#/}" -C / "${rest[@]}" >&5
fi
archive "${results[@]}" "${files[@]}" -C "$state" "$phase/done" >&3
"""
)

_OUTER = (
    r"""
phase=$1 mount=@MOUNT@ index=${2:-$BATCH_TASK_INDEX}
unset ${!BATCH_@}
cd /
log=$mount/$phase-$index.log
note() { TZ=UTC printf '%(%FT%TZ)T %s\n' -1 "$*" >>"$log"; }
fail() { note "$*"; echo "aecbench: $*" >&2; exit 1; }
note "$phase: the container has started"
state=$(mktemp -d) || fail "no temporary directory"
inputs=$mount/in-$index.tar
[[ -f $inputs ]] || fail "$inputs is missing"
unpack() { tar -xf "$inputs" -C "$state" "$@" || fail "$inputs cannot be read"; }
unpack mode workdir seconds before
read -r mode <"$state/mode"; read -r seconds <"$state/seconds"; read -r before <"$state/before"
IFS= read -r workdir <"$state/workdir"
[[ $phase = agent || $mode = separate ]] || exit 0
unpack "$phase"
exec {tick}<> <(:)  # a pipe in which nothing comes, to let time pass without a program
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

# Adds new output of a request to the log, as long as it is little.
follow() {
  local part file left=20
  local -A opened=()
  while ((left > 0)); do
    read -rt @LOG_SEC@ -u "$tick"
    for file in out err; do
      if [[ ! ${opened[$file]} && -f $state/$1/$file && ! -L $state/$1/$file ]]; then
        exec {opened[$file]}<"$state/$1/$file"
      fi
      [[ ${opened[$file]} ]] || continue
      part=
      IFS= read -rd '' -t 1 -N 16384 -u "${opened[$file]}" part
      [[ ! $part ]] || { ((left--)); note "$1: $file: $part"; }
    done
  done
}

# Lets the inner script do a request, but not for ever: it may be stopped by what it has started.
# So may every process that this one starts, which therefore waits by itself.
perform() {
  note "$1: the command starts; it has $seconds s, and @GUARD@ s for copies"
  local ends=$((SECONDS + seconds + @GUARD@)) child follower file part
  follow "$1" 2>/dev/null 3>&- 4>&- 5>&- &
  follower=$!
  (hidden bash -c "$inner" inner "$state" "$workdir" "$@") {tick}>&- &
  child=$!
  while kill -0 "$child" 2>/dev/null && ((SECONDS < ends)); do read -rt 0.1 -u "$tick"; done
  kill -KILL "$child" "$follower" 2>/dev/null
  wait "$child" "$follower" 2>/dev/null
  note "$1: the command has ended"
  [[ ! -f $state/$1/done ]] || return
  note "$1: it left no result"
  for file in said err out; do
    [[ -f $state/$1/$file && ! -L $state/$1/$file ]] || continue
    # Opened for writing, too, because it may have become a pipe that nothing else writes to.
    IFS= read -rd '' -t 1 -N 16384 part <>"$state/$1/$file"
    [[ ! $part ]] || note "$1: $file: $part"
  done
}

# Puts back an archive, but for files mounted read-only, which are not the sandbox's.
put_back() {
  local line
  while IFS= read -r line; do
    [[ $line = *": Read-only file system" || $line = *": Exiting with "* ]] ||
      fail "the files of the last command cannot be put back; $line"
  done < <(LC_ALL=C tar -xpf "$mount/$1-$before.tar" --numeric-owner --anchored "${@:2}" 2>&1)
}

# Puts back what the single command before this one has left.
restore() {
  local one
  note "the files of command $before are put back"
  for one in /logs /tests /solution; do
    rm -rf -- "$one" 2>/dev/null || find "$one" -mindepth 1 -delete
  done
  mkdir -p "$workdir" && find "$workdir" -mindepth 1 -delete
  [[ -e /workspace || -L /workspace ]] || ln -s "$workdir" /workspace
  put_back rest -C /
  put_back state --exclude=workspace -C /
  put_back state --exclude=logs --transform='s,^workspace,.,S' -C "$workdir"
}

if [[ "@HIDE@" ]]; then
  (hidden true) || fail "the bucket cannot be hidden from the agent"
fi
[[ ! $before ]] || restore
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
elif [[ $mode = single ]]; then
  exec 4>"$mount/state-$index.tar" 5>"$mount/rest-$index.tar"
  perform agent save
  exec 4>&- 5>&-
else
  perform agent pack
fi
exec 3>&-
note "$phase: the results are in the bucket"
exit 0
"""
)
