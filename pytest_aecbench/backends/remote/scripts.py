"""The shell scripts that run inside a rented sandbox, as root.

They need bash, tar and coreutils. Requests come in files, because a vendor may log the commands
that it runs.
"""

from __future__ import annotations

from pytest_aecbench.backends.shared.shell import CLEAR, MARK_OF, SWEEP

__all__ = ["COLLECT", "RUN"]

# The common beginning of both. A script gets the directory of its request, where the file
# ``request`` has fields ended by NUL. An answer is one line that starts with the request's nonce.
_COMMON = r"""
dir=$1
cd -- "$dir" || exit 125
field() { IFS= read -rd '' "$1"; }
path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
inline=150000
full='No space left on device'

# Prints the line that the client waits for, and stores it for a client that lost its connection.
answer() {
  { printf '%s\n' "$*" >.done && mv .done done; } 2>/dev/null
  printf '%s\n' "$*"
  { : >ended; } 2>/dev/null
}
fail() { answer "$nonce" failed "$1"; exit 125; }

# Prints one word per file: its content if it is small, else its size.
content() {
  local file
  for file; do
    if (($(stat -c %s "$file") <= inline)); then printf ' =%s' "$(base64 -w 0 "$file")"
    else printf ' %s' "$(stat -c %s "$file")"; fi
  done
}

# Makes the directories that every sandbox has.
prepare() {
  (umask 0; mkdir -p /logs/agent /logs/verifier)
  mkdir -p /tests "$workdir"
  [[ -e /workspace || -L /workspace ]] || ln -s "$workdir" /workspace
}
"""

# Runs one command. The fields: a nonce; the steps ("kill" all processes of earlier requests,
# "make" the working directory, "first" make the directories that every sandbox has); the start
# time from which processes are ours; seconds until the deadline, or none; user; the image's
# working directory; the working directory; the paths that ``archive`` replaces and an empty one.
# ``command`` and ``env`` are files, too. Answers "ended <exit code> <timed out> <start time>
# <stdout> <stderr>".
RUN = (
    _COMMON
    + r"""
{
  field nonce; field steps; field since; field seconds; field user; field workdir; field cwd
  targets=()
  while field target && [[ $target ]]; do targets+=("$target"); done
} <request

"""
    + MARK_OF
    + SWEEP
    + r"""
# Returns whether a process belongs to another request that has not ended, and keeps the processes
# above it, which are the vendor's. A request bears the name of its directory.
is_anothers() {
  local pid=$1 name=${dir##*/} other
  mark_of "$pid"
  [[ $mark && $mark != "$name" && $mark != */* ]] || return
  other=${dir%/*}/$mark
  if [[ -e $other ]]; then [[ -O $other && ! -e $other/ended ]] || return
  else [[ -O /proc/$pid ]] || return; fi
  while status "$pid"; pid=${fields[1]:-0}; ((pid > 1)); do
    mark_of "$pid"
    [[ $mark != "$name" ]] || break
    kept+="$pid "
  done
}

status $$
started=${fields[19]}

[[ $steps != *kill* ]] || sweep "${since:-$started}" || fail kill
[[ $steps != *first* ]] || prepare
"""
    + CLEAR
    + r"""
for target in "${targets[@]}"; do clear "$target" 2>>placing || fail place; done
if [[ -s archive ]] && ! said=$(LC_ALL=C tar -xpf archive -C / 2>&1); then
  [[ $said = *"$full"* ]] && fail full || fail place
fi
rm -f archive

environment=("PATH=$path" "AECBENCH_REQUEST=${dir##*/}")
while IFS= read -rd '' entry; do environment+=("$entry"); done <env
as=()
if [[ $user ]]; then
  IFS=: read -r name group <<<"$user"
  uid=$(id -u -- "$name" 2>/dev/null) || { [[ $name != *[!0-9]* ]] && uid=$name; } || fail user
  gid=${group:-$(id -g -- "$name" 2>/dev/null || echo "$uid")}
  ((uid == 0 && gid == 0)) || as=(setpriv "--reuid=$uid" "--regid=$gid" --clear-groups)
  home=$(getent passwd "$uid" | cut -d: -f6)
  environment=("HOME=${home:-/}" "${environment[@]}")
fi
[[ $steps != *make* ]] || mkdir -p -- "$cwd" 2>/dev/null
: >out; : >err; chmod 755 . 2>/dev/null
code=0 timed=0
if ! cd -- "$cwd" 2>/dev/null; then
  printf '%s: no such directory\n' "$cwd" >"$dir/err"
  code=125
else
  command=("$(<"$dir/command")")
  # Too long for an argument.
  (($(stat -c %s "$dir/command") < 100000)) || command=('eval "$(<"$0")"' "$dir/command")
  "${as[@]}" env -- "${environment[@]}" \
    bash -c -- "${command[@]}" </dev/null >"$dir/out" 2>"$dir/err" &
  child=$!
  if [[ $seconds ]]; then
    sleep "$seconds" </dev/null >/dev/null 2>&1 &
    timer=$!
    wait -n
    if kill -0 "$child" 2>/dev/null; then
      timed=1
      sweep "$started" is_anothers
    else  # it may have ended after the timer
      wait "$child"; code=$?
      kill -KILL "$timer" 2>/dev/null
    fi
  else
    wait "$child"; code=$?
  fi
fi 2>/dev/null
cd -- "$dir"
rm -rf command env request placing run
shown=
for stream in out err; do
  size=$(stat -c %s "$stream")
  if ((size > KEPT)); then
    { head -c HALF "$stream"; tail -c HALF "$stream"; } >"$stream.cut"
    mv "$stream.cut" "$stream"
  fi
  shown+=" $size$(content "$stream")"
done
answer "$nonce" ended "$code" "$timed" "$started"$shown
"""
)

# Packs /logs and the working directory. The fields: the nonce, the working directory. Answers
# "packed <logs> <workspace>", with "none" for one that is not a directory any more.
COLLECT = (
    _COMMON
    + r"""
{ field nonce; field workdir; } <request
prepare 2>/dev/null
packed=
for what in logs workspace; do
  from=/logs; [[ $what = logs ]] || from=$workdir
  rm -f "$what.tar"
  [[ -d $from ]] || { packed+=" none"; continue; }
  # Sparse, because a file of nothing but holes would fill the disk.
  said=$(LC_ALL=C tar -cSf "$what.tar" --warning=no-file-ignored --ignore-failed-read \
    -C "$from" . 2>&1)
  [[ $said != *"$full"* ]] || fail full
  [[ -s $what.tar ]] || fail "${said##*$'\n'}"
  packed+=$(content "$what.tar")
done
answer "$nonce" packed$packed
"""
)
