#!/usr/bin/env bash
# Unpacks what some faults need: PgBouncer to stand in the path, libfaketime to
# make the database's clock jump. They are the Debian packages and the libraries
# that they need, in a cache folder; nothing is installed and nothing outside
# that folder is touched.
#
# The folder is build in the checkout, or /var/cache/railhead for root, whose
# servers run as another account.
set -euo pipefail
umask 022

if ((EUID == 0)); then cache=/var/cache/railhead
else cache=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build; fi

# unpack NAME PACKAGE... puts packages into the folder NAME, in one step.
unpack() {
  local name=$1 work
  shift
  [[ ! -d $cache/$name/usr ]] || return 0
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
    echo "install-fault-tools: no apt-get here: install $name yourself" >&2
    return 1
  }
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/.unpack.XXXXXX")
  if (cd "$work" && apt-get download -q "$@" && for package in *.deb; do dpkg -x "$package" unpacked; done); then
    chmod 755 "$work/unpacked"
    rm -rf "${cache:?}/$name"
    mv "$work/unpacked" "$cache/$name"
    echo "install-fault-tools: $name is in $cache/$name"
  fi
  rm -rf "$work"
  [[ -d $cache/$name/usr ]]
}

unpack pgbouncer pgbouncer libevent-2.1-7 libc-ares2
unpack faketime libfaketime
