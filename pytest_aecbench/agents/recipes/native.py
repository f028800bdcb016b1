"""Installation of programs that npm's registry has as native binaries, without Node.js.

The package of the platform is downloaded directly: Node.js with npm would take minutes and half a
gigabyte in every image, and the program does not need it.
"""

from __future__ import annotations

__all__ = ["NATIVE"]

NATIVE = r"""
case $(uname -m) in
  x86_64) arch=x64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) echo "there is no build for $(uname -m)" >&2; exit 1 ;;
esac
musl=
for library in /lib/ld-musl-*; do [ ! -e "$library" ] || musl=-musl; done

packages() {
  if command -v apt-get >/dev/null; then
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
    rm -rf /var/lib/apt/lists/*
  elif command -v apk >/dev/null; then apk add --no-cache "$@"
  else dnf install -y "$@"
  fi
}

download() {
  if command -v curl >/dev/null; then curl -fsSL "$1" -o "$2"
  elif command -v wget >/dev/null; then wget -q "$1" -O "$2"
  else python3 -c 'import sys, urllib.request as r; r.urlretrieve(*sys.argv[1:])' "$1" "$2"
  fi
}

# Unpacks a package of the registry in a directory.
unpack() {
  registry=${NPM_CONFIG_REGISTRY:-https://registry.npmjs.org}
  # Small images may lack a program for downloads, or certificates.
  download "${registry%/}/$1" /tmp/package.tgz || {
    packages ca-certificates curl
    download "${registry%/}/$1" /tmp/package.tgz
  }
  mkdir -p "$2"
  tar -xzf /tmp/package.tgz -C "$2" --strip-components=1
  rm /tmp/package.tgz
  chmod -R a+rX "$2"
}
"""
