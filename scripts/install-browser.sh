#!/usr/bin/env bash
# Makes what the tests of the console need available, and prints two lines: the program of Chromium, and the file of
# axe-core, which judges whether a page can be used by everyone.
#
#   scripts/install-browser.sh           # finds them, or installs them
#   scripts/install-browser.sh --find    # only finds them
#
# Chromium is Debian's: as root the package is installed; as a normal user it and the libraries that this machine lacks
# are downloaded and unpacked into a cache folder, and nothing outside that folder is touched. axe-core comes from the
# npm registry and is compared with the digest below.
#
# The cache folder is $RAILHEAD_BROWSER_CACHE, else build/browser in the checkout, or /var/cache/railhead/browser for
# root. Elsewhere install Chromium or Chrome by hand: what is on the PATH is used.
set -euo pipefail
umask 022

axe_version=4.14.1
axe_sha512=1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=
trap '[[ -z $work ]] || rm -rf "$work"' EXIT

say() { printf 'install-browser: %s\n' "$*" >&2; }
die() { printf 'install-browser: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

if [[ -n ${RAILHEAD_BROWSER_CACHE:-} ]]; then cache=$RAILHEAD_BROWSER_CACHE
elif ((EUID == 0)); then cache=/var/cache/railhead/browser
else cache=$root/build/browser; fi
axe=$cache/axe-$axe_version.min.js

# works reports whether $1 is a browser that this machine runs. Its profile is not the user's.
works() {
  [[ -x $1 ]] && HOME=/nonexistent timeout 30 "$1" --version >/dev/null 2>&1
}

find_chromium() {
  local name program
  if works "$cache/chromium/run"; then
    echo "$cache/chromium/run"
    return 0
  fi
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    program=$(command -v "$name" 2>/dev/null) || continue
    if works "$program"; then
      echo "$program"
      return 0
    fi
  done
  return 1
}

find_both() {
  local chromium
  chromium=$(find_chromium) && [[ -s $axe ]] || return 1
  printf '%s\n%s\n' "$chromium" "$axe"
}

# make_work makes the scratch folder, inside the cache: the last mv is then a rename.
make_work() {
  mkdir -p "$cache"
  [[ -n $work ]] || work=$(mktemp -d "$cache/.new-XXXXXX")
}

install_chromium() {
  has apt-get && has dpkg || die "this is no Debian: install Chromium or Chrome so that it is on the PATH"
  if ((EUID == 0)); then
    say "apt-get update"
    timeout 180 apt-get -q -o Acquire::http::Timeout=30 update >&2 || say "apt-get update did not end well; going on with its old lists"
  fi
  apt-cache show chromium >/dev/null 2>&1 || die "apt knows no package chromium; run apt-get update as root first"
  if ((EUID == 0)); then
    say "installing Debian package chromium (about 120 MB)"
    DEBIAN_FRONTEND=noninteractive timeout 900 apt-get install -y -q -o Acquire::http::Timeout=30 -o Acquire::Retries=3 \
      --no-install-recommends chromium >&2 || die "apt could not install chromium"
  else
    unpack_chromium
  fi
}

# unpack_chromium unpacks the packages that an installation would add to this machine. The program finds their libraries
# by its environment, and fonts by a configuration of its own where the machine has none.
unpack_chromium() {
  local packages package tree libraries
  packages=$(apt-get install -s --no-install-recommends chromium 2>/dev/null | sed -n 's/^Inst \(\S*\) .*/\1/p')
  [[ -n $packages ]] || die "apt does not say what chromium needs"
  make_work
  say "unpacking Debian package chromium and what it needs (about 120 MB), without installing it, into $cache"
  mkdir "$work/debs"
  # shellcheck disable=SC2086 # names of packages, one a word
  (cd "$work/debs" && timeout 900 apt-get -q -o Acquire::http::Timeout=30 -o Acquire::Retries=3 download $packages >&2) ||
    die "apt could not download chromium; is there a network?"
  tree=$work/chromium
  for package in "$work"/debs/*.deb; do dpkg -x "$package" "$tree"; done
  libraries=$(cd "$tree" && find usr/lib -path usr/lib/chromium -prune -o -name '*.so*' -printf '%h\n' | sort -u |
    sed 's|^|$here/|' | paste -sd:)
  if [[ ! -e /etc/fonts/fonts.conf ]]; then
    cat >"$tree/fonts.conf" <<FONTS
<?xml version="1.0"?>
<fontconfig><dir>/usr/share/fonts</dir><dir>$cache/chromium/usr/share/fonts</dir><cachedir>$cache/fontcache</cachedir></fontconfig>
FONTS
  fi
  cat >"$tree/run" <<RUN
#!/bin/sh
here=\$(cd "\$(dirname "\$0")" && pwd)
export LD_LIBRARY_PATH="$libraries"
[ ! -e "\$here/fonts.conf" ] || export FONTCONFIG_FILE="\$here/fonts.conf"
exec "\$here/usr/lib/chromium/chromium" "\$@"
RUN
  chmod 755 "$tree" "$tree/run"
  works "$tree/run" || die "the Chromium of the packages does not run on this machine"
  # Two who install at once: the second finds the first one's, which is as good.
  rm -rf "$cache/chromium"
  mv "$tree" "$cache/" 2>/dev/null || find_chromium >/dev/null || die "could not move Chromium into $cache"
}

install_axe() {
  has npm || die "no npm here: install Node"
  make_work
  say "unpacking npm package axe-core@$axe_version into $cache"
  (cd "$work" && timeout 120 npm pack --silent "axe-core@$axe_version" >/dev/null) ||
    die "npm could not fetch axe-core@$axe_version; is there a network?"
  sha512sum --status -c <<<"$axe_sha512  $work/axe-core-$axe_version.tgz" ||
    die "axe-core@$axe_version is not the one whose digest is known here"
  tar -xzf "$work/axe-core-$axe_version.tgz" -C "$work" --no-same-owner package/axe.min.js
  mv "$work/package/axe.min.js" "$axe"
}

case ${1:-} in
  "" | --find) ;;
  *) die "usage: install-browser.sh [--find]" ;;
esac
if find_both; then
  exit 0
fi
[[ -z ${1:-} ]] || die "no Chromium and axe-core here: run make browser"
find_chromium >/dev/null || install_chromium
[[ -s $axe ]] || install_axe
find_both || die "what was installed does not run on this machine"
