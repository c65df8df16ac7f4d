#!/usr/bin/env bash
# Runs go test for packages of any module of the repository, each in its own module, one module after the other. Packages
# are named from the root: ./ledger, ./testbed/model, ./bench; ./... are those of all modules.
#
#   scripts/test.sh 'PKG...' [ARGS...]     GO names the go command; what follows the packages are arguments of go test
#
# All modules are tested even if one fails; the last lines say how long each took.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/modules.sh

go=${GO:-go}
read -ra wanted <<<"$1"
shift

took=() failed=0
for module in "${modules[@]}"; do
  mapfile -t packages < <(packages_in "$module" "${wanted[@]}")
  ((${#packages[@]})) || continue
  start=$SECONDS result=ok
  # Some packages are tests alone.
  "$go" -C "$module" list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' "${packages[@]}" | xargs -r "$go" -C "$module" build -o /dev/null || result=FAILED
  "$go" -C "$module" test "${packages[@]}" "$@" || result=FAILED
  [[ $result == ok ]] || failed=1
  took+=("$(printf 'test: %-8s %-6s %5d s' "$module" "$result" $((SECONDS - start)))")
done
printf '%s\n' "${took[@]}"
exit "$failed"
