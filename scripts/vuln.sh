#!/usr/bin/env bash
# Runs govulncheck in every module. A vulnerability that our code reaches fails. When the database is out of reach nothing was
# checked, and that is what is said: no check is not a clean check.
#
#   scripts/vuln.sh       GO names the go command, PKG the packages (default ./..., of every module),
#                         GOVULNDB another copy of the database (https:// or file://)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source scripts/modules.sh

go=${GO:-go}
failed=0
for module in "${modules[@]}"; do
  mapfile -t packages < <(packages_in "$module" ${PKG:-./...})
  ((${#packages[@]})) || continue
  out=$(cd "$module" && "$go" tool -modfile="$OLDPWD/tools/go.mod" govulncheck ${GOVULNDB:+-db "$GOVULNDB"} "${packages[@]}" 2>&1)
  code=$?
  case $code in
    0) printf '%s\n' "$out" ;;
    *)
      # 3 is "found something". Everything else is an error, of which only the unreachable database is forgiven.
      if [[ $code -ne 3 && $out == *"fetching vulnerabilities:"* ]]; then
        echo "govulncheck: not run (vulnerability database out of reach)"
        exit "$failed"
      fi
      printf '%s: %s\n' "$module" "$out" >&2
      failed=1
      ;;
  esac
done
exit "$failed"
