#!/usr/bin/env bash
# Runs govulncheck. A vulnerability that our code reaches fails. When the database is out of reach nothing was
# checked, and that is what is said: no check is not a clean check.
#
#   scripts/vuln.sh       GO names the go command, PKG the packages (default ./...),
#                         GOVULNDB another copy of the database (https:// or file://)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
out=$("$go" tool -modfile=tools/go.mod govulncheck ${GOVULNDB:+-db "$GOVULNDB"} "${PKG:-./...}" 2>&1)
code=$?
case $code in
  0) printf '%s\n' "$out" ;;
  *)
    # 3 is "found something". Everything else is an error, of which only the unreachable database is forgiven.
    if [[ $code -ne 3 && $out == *"fetching vulnerabilities:"* ]]; then
      echo "govulncheck: not run (vulnerability database out of reach)"
      exit 0
    fi
    printf '%s\n' "$out" >&2
    exit "$code"
    ;;
esac
