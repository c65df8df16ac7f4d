#!/usr/bin/env bash
# Makes Patroni, etcd and HAProxy available for `make ha`, and prints the folder with their programs.
#
#   scripts/install-ha.sh           # finds them, or installs them
#   scripts/install-ha.sh --find    # only finds them
#
# They are the Debian packages and the libraries that they need, downloaded and unpacked, as root and as a normal user alike,
# into build/ha in the checkout, or /var/cache/railhead/ha for root, whose servers run as another account. Nothing is
# installed, and nothing outside that folder is touched. On the hosts of a cell the packages themselves are installed: see
# docs/operations.md.
set -euo pipefail
umask 022

packages=(patroni python3-cdiff python3-click python3-dateutil python3-dnspython python3-etcd python3-pkg-resources
  python3-prettytable python3-psutil python3-psycopg2 python3-six python3-urllib3 python3-wcwidth python3-yaml libpq5
  etcd-server etcd-client
  haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=
trap '[[ -z $work ]] || rm -rf "$work"' EXIT

die() { printf 'install-ha: %s\n' "$*" >&2; exit 1; }

if ((EUID == 0)); then cache=/var/cache/railhead/ha
else cache=$root/build/ha; fi

case ${1:-} in
  "" | --find) ;;
  *) die "usage: install-ha.sh [--find]" ;;
esac
if [[ -x $cache/bin/patroni ]]; then
  echo "$cache/bin"
  exit 0
fi
[[ -z ${1:-} ]] || die "Patroni, etcd and HAProxy are not here: run scripts/install-ha.sh"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || die "this is no Debian: there is no package to unpack"
if ! apt-cache show patroni >/dev/null 2>&1; then
  ((EUID == 0)) || die "apt knows no package patroni; run apt-get update as root first"
  timeout 180 apt-get -q -o Acquire::http::Timeout=30 update >&2 || die "apt-get update did not end well; is there a network?"
fi
mkdir -p "$cache"
work=$(mktemp -d "$cache/.new-XXXXXX")
chmod 777 "$work" # apt downloads as an account of its own where root asks it
(cd "$work" && timeout 300 apt-get -q -o Acquire::http::Timeout=30 -o Acquire::Retries=3 download "${packages[@]}" >&2) ||
  die "apt could not download the packages; is there a network?"
for package in "$work"/*.deb; do dpkg -x "$package" "$work/tree"; done

# The programs are called by scripts that say where the unpacked libraries are.
mkdir "$work/bin"
program() {
  local name=$1
  shift
  {
    echo '#!/bin/sh'
    echo "tree=$cache/tree"
    printf '%s\n' "$@"
  } >"$work/bin/$name"
  chmod 755 "$work/bin/$name"
}
for name in patroni patronictl; do
  # shellcheck disable=SC2016 # written as it is
  program $name 'export PYTHONPATH=$tree/usr/lib/python3/dist-packages' \
    'export LD_LIBRARY_PATH=$(echo $tree/usr/lib/*-linux-gnu)' "exec /usr/bin/python3 \$tree/usr/bin/$name \"\$@\""
done
for name in etcd etcdctl; do program $name "exec \$tree/usr/bin/$name \"\$@\""; done
# shellcheck disable=SC2016
program haproxy 'export LD_LIBRARY_PATH=$(echo $tree/usr/lib/*-linux-gnu)' 'exec $tree/usr/sbin/haproxy "$@"'

chmod 755 "$work"
rm -rf "$cache/tree" "$cache/bin"
mv "$work/tree" "$cache/tree"
for check in 'patroni --version' 'patronictl version' 'etcd --version' 'haproxy -v'; do
  "$work/bin/"$check >&2 || die "the unpacked ${check%% *} does not run on this machine"
done
PYTHONPATH=$cache/tree/usr/lib/python3/dist-packages /usr/bin/python3 -c 'import psycopg2, etcd, dns' >&2 ||
  die "the unpacked libraries of Python do not fit this machine's /usr/bin/python3"
mv "$work/bin" "$cache/bin"
echo "$cache/bin"
