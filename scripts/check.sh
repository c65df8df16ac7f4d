#!/usr/bin/env bash
# What a developer runs all day, within 90 seconds on 2 cores: the format of all Go, go vet in every module, every test of the
# packages that are quick, and the core of those that are not. All that is not run here is in make test.
#
#   scripts/check.sh     GO names the go command; the rest are arguments of go test
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/modules.sh
source scripts/steps.sh

go=${GO:-go}

# The core of packages that take longer: what they are for, as it goes when nothing goes wrong, and their golden files.
core=(
  # acl, alerts, cmd/railhead
  Apply MatrixGolden Roles Diff EverythingFits ExitCodes Documented PaymentShow PaymentList StatusCommand RailCheck
  EnvironmentPage
  # ingest/api, ingest/webhook
  Enqueue Reads Tokens OpenAPI ProblemsHavePages CommitWord DeliveryIsSigned FileFaults DocsVerify
  # ledger
  EnqueueRefuses Batch Claim TwoClaimAtOnce Record RecordIsRepeatable TwoWritersOfTheSameRows CancelAgainstClaim Timeline Status Operator Certainty
  CertaintySaysWhy Reschedule ReplayIsRefused ResolveIsRefused NotExecutedWantsTheRailsWord CallbackForAnOpenClaim Door DoorAndSQL
  IngestMayOnlyEnqueue FeedReadsWhatIsNew Views Lanes ClaimHonoursASuspension AnotherSchemaIsRefused
  # migrations
  Frozen NumbersMakeTheCurrentText NumbersAreWellFormed HeadersSayWhatFunctionsDo HeadersNameRoles LiteralsReadAlike Dump OneTruth Schema Vocabulary
  # proofs
  GoldenList Statements OffencesCoverProofs Report
  # reaper, relayer
  Contract Configuration Expire Stale LostIsUnknown PartitionsAhead Dispatch NeverIsSentOnce RailsAreApart Together
)
slow=(acl alerts cmd/railhead ingest/api ingest/webhook ledger ledger/reader migrations proofs reaper relayer)
# Tests of what tests stand on, and of the pages: make test runs them.
rig=(internal/readme internal/test/localrun internal/test/pgserver internal/test/pgtest cmd/railsim)

format() {
  local unformatted
  unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 "$("$go" env GOROOT)/bin/gofmt" -l 2>/dev/null)
  [[ -z $unformatted ]] || { printf 'not formatted (gofmt -w):\n%s\n' "$unformatted" >&2; return 1; }
}

vet() {
  local module status=0
  for module in "${modules[@]}"; do
    "$go" -C "$module" vet ./... || status=1
  done
  return "$status"
}

# tests runs both at once: the quick ones wait for time, the core for the server.
tests() {
  local path pattern status=0
  path=$(sed -n 's/^module //p' go.mod)
  pattern=$(printf '|%s' $(printf "$path/%s\n" "${slow[@]}" "${rig[@]}"))
  "$go" test -short "$@" $("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -Evx "${pattern#|}") &
  "$go" test -short -run "^Test($(IFS='|'; echo "${core[*]}"))\$" "$@" "${slow[@]/#/./}" || status=1
  wait $! || status=1
  return "$status"
}

step format format
step vet vet
step test tests "$@"
finish
