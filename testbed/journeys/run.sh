#!/usr/bin/env bash
# Types the journeys of a newcomer on an installation of its own: that of a caller, of an operator on call, and of an
# auditor. `make run` starts the installation, with a data folder and ports of its own, and Ctrl-C stops it.
#
#   testbed/journeys/run.sh [JOURNEY...]      by default caller on-call auditor
#   testbed/journeys/run.sh --check           only says which programs are missing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export JOURNEYS=build/journeys # below the checkout, as the folder of make run
up_within=600                  # seconds; a fresh clone is built first

# A PostgreSQL that was installed for this checkout may have a psql that is not on the PATH.
server=$({ build/bin/pgrun -find 2>/dev/null || true; } | sed -n 's/^PostgreSQL .* in \(.*\) ([^(]*)$/\1/p')
export PATH=$PWD/build/bin:$PATH${server:+:$server}
missing=()
for program in psql curl jq; do
  command -v "$program" >/dev/null || missing+=("$program")
done
if ((${#missing[@]})); then
  echo "journeys: missing: ${missing[*]}" >&2
  exit 1
fi
[[ ${1:-} != --check ]] || exit 0
(($#)) || set -- caller on-call auditor

# What is set for another installation is not for this one.
for variable in DATABASE_URL RAILHEAD_CELL PGOPTIONS "${!RAILHEAD_@}"; do
  case $variable in RAILHEAD_PG_*) ;; *) unset "$variable" ;; esac
done

# As root below a closed folder the data is elsewhere, and a link leads there.
remove() {
  local data
  data=$(readlink "$JOURNEYS/run/pg" || true)
  [[ $data != /var/lib/railhead/run-*/pg ]] || rm -rf "${data%/pg}"
  rm -rf "$JOURNEYS"
}
remove
mkdir -p "$JOURNEYS"

printed=$JOURNEYS/run.txt
: >"$printed"
set -m # a process group of its own, for Ctrl-C
make --no-print-directory run ARGS="--dir $JOURNEYS/run --evidence $JOURNEYS/evidence --instructions 100" </dev/null >"$printed" 2>&1 &
run=$!
set +m

stop() {
  kill -INT -- "-$run" 2>/dev/null || true
  wait "$run" 2>/dev/null || true
}
trap stop EXIT

deadline=$((SECONDS + up_within))
until grep -q '^run: it stays up' "$printed"; do
  if ((SECONDS >= deadline)) || ! kill -0 "$run" 2>/dev/null; then
    cat "$printed"
    echo "journeys: make run did not come up" >&2
    exit 1
  fi
  sleep 0.2
done

for journey in "$@"; do
  testbed/journeys/"$journey".sh
done
trap - EXIT
stop
remove
