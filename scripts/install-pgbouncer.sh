#!/usr/bin/env bash
# Unpacks PgBouncer for the faults that put it in the path: the Debian package
# and the libraries that it needs, into a cache folder. Nothing is installed and
# nothing outside that folder is touched.
#
# The folder is $RAILHEAD_PGBOUNCER_CACHE, else build/pgbouncer in the checkout,
# or /var/cache/railhead/pgbouncer for root, whose PgBouncer runs as another account.
set -euo pipefail
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ -n ${RAILHEAD_PGBOUNCER_CACHE:-} ]]; then cache=$RAILHEAD_PGBOUNCER_CACHE
elif ((EUID == 0)); then cache=/var/cache/railhead/pgbouncer
else cache=$root/build/pgbouncer; fi

[[ ! -x $cache/usr/sbin/pgbouncer ]] || exit 0
command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
  echo "install-pgbouncer: no apt-get here: install PgBouncer yourself, or name it in RAILHEAD_PGBOUNCER" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -q pgbouncer libevent-2.1-7 libc-ares2
for package in *.deb; do dpkg -x "$package" unpacked; done
mkdir -p "$(dirname "$cache")"
rm -rf "$cache"
chmod 755 unpacked
mv unpacked "$cache"
echo "install-pgbouncer: $("$cache"/usr/sbin/pgbouncer --version 2>/dev/null | head -1 || echo unpacked) in $cache"
