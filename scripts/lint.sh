#!/usr/bin/env bash
# Checks that gofmt, go fix, go vet, staticcheck with its style set, unparam, sqlclosecheck and misspell have nothing to say, in
# every module of the repository. spancheck is not among them: it does not see a span that a function ends for its caller.
# Goes through all checks before it fails, so that one run shows everything.
#
#   scripts/lint.sh       GO names the go command, PKG the packages (default ./...)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source scripts/modules.sh

go=${GO:-go}
pkg=${PKG:-./...}
failed=0

complain() { printf 'lint: %s\n' "$*" >&2; failed=1; }

gofmt=$("$go" env GOROOT)/bin/gofmt # the one of this Go, not just any on PATH
[[ -x $gofmt ]] || gofmt=gofmt
unformatted=$(find . \( -path ./.git -o -path ./build \) -prune -o -name '*.go' -print0 | xargs -0 "$gofmt" -l) || failed=1
[[ -z $unformatted ]] || complain $'not formatted (gofmt -w):\n'"$unformatted"

for module in "${modules[@]}"; do
  mapfile -t what < <(packages_in "$module" $pkg)
  ((${#what[@]})) || continue
  # go fix rewrites files; -diff prints what it would do and fails if there is anything.
  "$go" -C "$module" fix -diff "${what[@]}" || complain "$module: go fix has something to do, or stopped (see above)"
  "$go" -C "$module" vet "${what[@]}" || complain "$module: go vet"
  (cd "$module" && "$go" tool -modfile="$OLDPWD/tools/go.mod" staticcheck -checks all "${what[@]}") || complain "$module: staticcheck"
  for tool in unparam sqlclosecheck; do
    (cd "$module" && "$go" tool -modfile="$OLDPWD/tools/go.mod" "$tool" "${what[@]}") || complain "$module: $tool"
  done
done

# The words of people: not generated files, tables of codes, or what a test spells wrong on purpose.
if [[ $pkg == ./... ]]; then
  git ls-files -z -- '*.go' '*.sql' '*.md' '*.yaml' '*.yml' '*.sh' '*.ts' Makefile ':!:rails/codes/tables' ':!:clients/generated' |
    xargs -0 "$go" tool -modfile=tools/go.mod misspell -error -i probabilty || complain "misspell"
fi

# The files for other systems are compiled nowhere else.
if [[ $pkg == ./... ]]; then
  GOOS=darwin CGO_ENABLED=0 "$go" vet ./internal/test/pgserver/... || complain "internal/test/pgserver for darwin"
fi
exit "$failed"
