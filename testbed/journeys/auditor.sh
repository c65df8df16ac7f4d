#!/usr/bin/env bash
# An auditor's journey, by docs/audit.md: every proof, some of them, the report and its digest, and the proofs without
# this program, by a login that can only read.
. "$(dirname "$0")/journey.sh"

types "export RAILHEAD_AUDITOR_URL='$(login auditor)'"
types 'railhead prove --report audit-2026-03.json'
says '^proofs: passed=[1-9][0-9]* failed=0 rows_checked=[1-9][0-9]*$'
types 'railhead prove list'
says '^nothing-lost '
types 'railhead prove run sequence nothing-lost'
says '^proofs: passed=2 failed=0'
types 'railhead prove --since 24h'
says ' failed=0 '
types "RAILHEAD_AUDITOR_URL='$(login control)' railhead prove run sequence sequence-next"
says '^proofs: passed=2 failed=0'

# What needs more than an auditor has is not called passed; an administrator runs it.
ends 8 'railhead prove run sequence-next'
says 'NOT_RUN'
types "RAILHEAD_AUDITOR_URL='$(login admin)' railhead prove run verbs append-only tokens --behaviour"
says '^proofs: passed=3 failed=0'

# The same without this program.
types 'railhead prove list nothing-lost | psql -X -q -A -t "$RAILHEAD_AUDITOR_URL"'
[[ -z $said ]] || fail 'the proof has named a violation'
types 'railhead prove list grants members --login my_auditor=railhead_auditor > grants.sql'
types 'psql -X -q -A -t "$RAILHEAD_AUDITOR_URL" -f grants.sql'

# The report is whole, is never overwritten, and shows when it was changed.
types 'railhead prove check audit-2026-03.json'
digest=$(grep -Eo '[0-9a-f]{64}' said.txt | head -n 1)
types 'jq -cj .report audit-2026-03.json | sha256sum'
says "^$digest "
ends 2 'railhead prove --report audit-2026-03.json'
sed 's/"passed": *[0-9]*/"passed":99/' audit-2026-03.json >forged.json
ends 8 'railhead prove check forged.json'
finish
