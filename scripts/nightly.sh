#!/usr/bin/env bash
# Runs the long forms of what make test and .ci/run have in short, one after the other, about five hours on 2 cores.
#
#   scripts/nightly.sh [--list] [NAME...]
#
# --list prints them; names run those alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

# name, and the arguments of make
long_forms() {
  cat <<'LIST'
test         test LONG=1
test-18      test PG=18 LONG=1
offences     offences
alerts       alerts
api          api
events       events
brokers      brokers
recovery     recovery
console      console
console-clicks console-clicks
console-scale console-scale
late-matrix  late-matrix ONE_OF=10
fuzz         fuzz TIME=2m
model        test PKG=./testbed/model ARGS="-rapid.checks 10000" TEST_TIMEOUT=2h
faults       faults SEEDS=3
nemesis      nemesis MINUTES=30
ha           ha FAILOVERS=20
cells        cells ARGS="-lasting 10m"
ha-page      test PKG=./testbed/ha ARGS=-page
mutants      mutants LANES=3
bench        bench
LIST
}

if [[ ${1:-} == --list ]]; then
  long_forms
  exit
fi
for wanted in "$@"; do
  long_forms | grep -q "^$wanted " || { echo "nightly: there is no $wanted: see --list" >&2; exit 2; }
done
while read -r name arguments; do
  if (($# > 0)) && [[ " $* " != *" $name "* ]]; then
    continue
  fi
  eval "step $name make --no-print-directory $arguments" </dev/null
done < <(long_forms)
finish
