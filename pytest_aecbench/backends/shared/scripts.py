"""Parts of the shell scripts that run inside sandboxes of several backends."""

from __future__ import annotations

__all__ = ["CLEAR"]

# Makes the way to a path, without links that an agent may have put there, and empties its place.
CLEAR = r"""
clear() {
  local way= rest=${1#/}
  while [[ $rest = */* ]]; do
    way+=/${rest%%/*} rest=${rest#*/}
    if [[ -L $way && $way =~ ^(/workspace/|/(logs|solution|tests)(/|$)) ]] ||
       [[ -e $way && ! -d $way ]]; then
      rm -rf -- "$way" || return
    fi
    [[ -d $way ]] || mkdir -- "$way" || return
  done
  # What something is mounted at can be emptied, but not removed.
  rm -rf -- "$1" || [[ -d $1 && ! -L $1 && -z $(ls -A -- "$1") ]]
}
"""
