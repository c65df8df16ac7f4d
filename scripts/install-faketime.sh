#!/usr/bin/env bash
# Makes libfaketime available for `make alerts`, which lets a database server run ahead of its host's clock, and prints
# the path of the library.
#
#   scripts/install-faketime.sh           # finds it, or installs it
#   scripts/install-faketime.sh --find    # only finds it
#
# On Debian and its kin the distribution's package is downloaded and unpacked, as root and as a normal user alike, into
# $RAILHEAD_PROMETHEUS_CACHE, else build/faketime in the checkout, or /var/cache/railhead/faketime for root.
set -euo pipefail
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=
trap '[[ -z $work ]] || rm -rf "$work"' EXIT

die() { printf 'install-faketime: %s\n' "$*" >&2; exit 1; }

cache() {
  if [[ -n ${RAILHEAD_PROMETHEUS_CACHE:-} ]]; then echo "$RAILHEAD_PROMETHEUS_CACHE/faketime"
  elif ((EUID == 0)); then echo /var/cache/railhead/faketime
  else echo "$root/build/faketime"; fi
}

find_library() {
  local found
  found=$(find "$(cache)/usr/lib" /usr/lib/*/faketime -name libfaketime.so.1 2>/dev/null | head -n 1)
  [[ -n $found ]] && echo "$found"
}

case ${1:-} in
  "" | --find) ;;
  *) die "usage: install-faketime.sh [--find]" ;;
esac
if find_library; then
  exit 0
fi
[[ -z ${1:-} ]] || die "no libfaketime here: run scripts/install-faketime.sh"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "this is no Debian: install libfaketime by hand"
if ! apt-cache show libfaketime >/dev/null 2>&1; then
  ((EUID == 0)) || die "apt knows no package libfaketime; run apt-get update as root first"
  timeout 180 apt-get -q -o Acquire::http::Timeout=30 update >&2 || die "apt-get update did not end well; is there a network?"
fi
mkdir -p "$(cache)"
work=$(mktemp -d "$(cache)/.new-XXXXXX")
chmod 777 "$work" # apt downloads as an account of its own where root asks it
(cd "$work" && timeout 120 apt-get -q -o Acquire::http::Timeout=30 -o Acquire::Retries=3 download libfaketime >&2) ||
  die "apt could not download the package libfaketime; is there a network?"
dpkg -x "$work"/libfaketime_*.deb "$work/tree"
rm -rf "$(cache)/usr"
mv "$work/tree/usr" "$(cache)/"
find_library || die "the package holds no libfaketime.so.1"
