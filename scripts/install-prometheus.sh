#!/usr/bin/env bash
# Makes prometheus and promtool available for the tests of the alerts, and prints the folder that holds them.
#
#   scripts/install-prometheus.sh           # finds them, or installs them
#   scripts/install-prometheus.sh --find    # only finds them
#
# On Debian and its kin the distribution's package is downloaded and unpacked into a cache folder, as root and as a
# normal user alike: both programs need nothing but libc, and an installed package would start a service of its own.
# Nothing outside that folder is touched, but for apt's own lists when root has none.
#
# The cache folder is $RAILHEAD_PROMETHEUS_CACHE, else build/prometheus in the checkout, or
# /var/cache/railhead/prometheus for root. Elsewhere install Prometheus by hand: what is on the PATH is used.
set -euo pipefail
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=
trap '[[ -z $work ]] || rm -rf "$work"' EXIT

say() { printf 'install-prometheus: %s\n' "$*" >&2; }
die() { printf 'install-prometheus: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

cache() {
  if [[ -n ${RAILHEAD_PROMETHEUS_CACHE:-} ]]; then echo "$RAILHEAD_PROMETHEUS_CACHE"
  elif ((EUID == 0)); then echo /var/cache/railhead/prometheus
  else echo "$root/build/prometheus"; fi
}

# works reports whether folder $1 holds both programs, and this machine runs them.
works() {
  [[ -x $1/prometheus && -x $1/promtool ]] &&
    timeout 20 "$1/prometheus" --version >/dev/null 2>&1 && timeout 20 "$1/promtool" --version >/dev/null 2>&1
}

find_programs() {
  local folder
  for folder in "$(cache)/usr/bin" "$(dirname "$(command -v promtool 2>/dev/null || echo /usr/bin/promtool)")"; do
    if works "$folder"; then
      echo "$folder"
      return 0
    fi
  done
  return 1
}

install_unpacked() {
  has apt-get && has dpkg ||
    die "this is no Debian: install Prometheus so that prometheus and promtool are on the PATH (macOS: brew install prometheus)"
  if ! apt-cache show prometheus >/dev/null 2>&1; then
    ((EUID == 0)) || die "apt knows no package prometheus; run apt-get update as root first"
    say "apt-get update"
    timeout 180 apt-get -q -o Acquire::http::Timeout=30 update >&2 || die "apt-get update did not end well; is there a network?"
  fi
  mkdir -p "$(cache)"
  work=$(mktemp -d "$(cache)/.new-XXXXXX")
  chmod 777 "$work" # apt downloads as an account of its own where root asks it
  say "unpacking Debian package prometheus (about 20 MB), without installing it, into $(cache)"
  (cd "$work" && timeout 300 apt-get -q -o Acquire::http::Timeout=30 -o Acquire::Retries=3 download prometheus >&2) ||
    die "apt could not download the package prometheus; is there a network? As root, apt-get update may help"
  dpkg -x "$work"/prometheus_*.deb "$work/tree"
  works "$work/tree/usr/bin" || die "the programs of the package don't run on this machine"
  # Two who install at once: the second finds the first one's, which are as good.
  rm -rf "$(cache)/usr"
  mv "$work/tree/usr" "$(cache)/" || find_programs >/dev/null || die "could not move the programs into $(cache)"
}

case ${1:-} in
  "" | --find) ;;
  *) die "usage: install-prometheus.sh [--find]" ;;
esac
if find_programs; then
  exit 0
fi
[[ -z ${1:-} ]] || die "no prometheus and promtool here: run scripts/install-prometheus.sh"
install_unpacked
find_programs
