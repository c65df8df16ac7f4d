#!/usr/bin/env bash
# Fuzzes each decoder of the product, one after the other, for a time.
#
#   scripts/fuzz.sh TIME [PATTERN]
#
# TIME is as of go test -fuzztime, such as 1m; PATTERN selects names such as FuzzReadInstruction. An input that fails is
# stored in the testdata of its package, and is a test from then on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
: "${GO:=go}"

while IFS=: read -r file line; do
  name=${line#func }
  name=${name%%(*}
  if [[ ! $name =~ ${2:-.} ]]; then
    continue
  fi
  package=./$(dirname "$file")
  step "$(basename "$package").${name#Fuzz}" "$GO" test -run '^$' -fuzz "^$name\$" -fuzztime "$1" "$package" </dev/null
done < <(git grep -E '^func Fuzz[A-Za-z]+\(' -- '*_test.go' | sort)
((${#summary[@]} > 0)) || { echo "fuzz: no decoder is called ${2:-.}" >&2; exit 2; }
finish
