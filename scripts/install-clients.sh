#!/usr/bin/env bash
# Fetches the PostgreSQL clients that the examples of docs/ingest.md use: pg for Node from the npm registry, and psycopg
# from the Debian packages, unpacked and not installed; and what clients/typescript and clients/generated are built with,
# into their folders node_modules. Nothing else outside the cache folder is touched: build in the checkout, or
# /var/cache/railhead for root. It needs node and npm, and /usr/bin/python3 for the other.
set -euo pipefail
umask 022

pg_version=8.13.1

if ((EUID == 0)); then cache=/var/cache/railhead
else cache=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build; fi
mkdir -p "$cache"
work=$(mktemp -d "$cache/.clients.XXXXXX")
trap 'rm -rf "$work"' EXIT

mkdir -p "$cache/clients"

node() {
  [[ -d $cache/clients/node_modules/pg ]] && return
  command -v npm >/dev/null || { echo "install-clients: no npm here: install Node" >&2; return 1; }
  timeout 120 npm install --silent --no-audit --no-fund --no-save --prefix "$work/node" "pg@$pg_version" >&2 || return 1
  rm -rf "$cache/clients/node_modules"
  mv "$work/node/node_modules" "$cache/clients/node_modules"
}

python() {
  local package
  [[ -d $cache/clients/python/psycopg ]] && return
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "install-clients: no apt-get here: install psycopg 3" >&2; return 1; }
  mkdir "$work/debs"
  (cd "$work/debs" && timeout 120 apt-get -q -o Acquire::http::Timeout=30 -o Acquire::Retries=3 download python3-psycopg python3-typing-extensions >&2) || return 1
  for package in "$work"/debs/*.deb; do dpkg -x "$package" "$work/unpacked" || return 1; done
  rm -rf "$cache/clients/python"
  mv "$work/unpacked/usr/lib/python3/dist-packages" "$cache/clients/python"
}

# packages installs what a folder's lock names.
packages() {
  local folder
  folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/$1
  [[ -d $folder/node_modules ]] && return
  command -v npm >/dev/null || { echo "install-clients: no npm here: install Node" >&2; return 1; }
  (cd "$folder" && timeout 180 npm ci --silent --no-audit --no-fund --ignore-scripts >&2)
}

status=0
packages clients/typescript || status=1
packages clients/generated || status=1
node || status=1
python || status=1
echo "$cache/clients"
exit "$status"
