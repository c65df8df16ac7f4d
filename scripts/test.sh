#!/usr/bin/env bash
# Runs go test for packages of any module of the repository, each in its own module, one module after the other. Packages
# are named from the root: ./ledger, ./testbed/model, ./bench; ./... are those of all modules.
#
#   scripts/test.sh [--short] 'PKG...' [ARGS...]     GO names the go command; ARGS are arguments of go test
#
# --short gives go test -short, and leaves out the tests below. All modules are tested even if one fails; the last lines
# say how long each took.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/modules.sh

# Tests of the product that take longer than 5 seconds: they play one rule in very many ways, or wait for real time.
# make test LONG=1, .ci/run and make nightly run them.
long=(
  # ledger
  HostileSettings GatheredStorm TakenWithAForgottenSince TakenWithAForgotten ExecutedTwicePastTheWindow NotFoundBeforeTheProfile LetterFacts
  ReplayOfAKeyThatTheRailForgot ReplayOfASendThatIsYetToCome BlockerOfAnotherLogin AccountNumbersAreNotCards ConcurrentBatches
  OneKeyFiftyCallers NoSettingHidesACancelledWait SoundHasNoFault LoneCallAnswersAlike ForgottenUnderAnotherProfile
  ForgottenInquiryMovesTheWindow EveryLetterCanBeEnded
  # ledger/reader, migrations
  GaugesDoNotGrowWithPending CallbackReadsByIndex LooksDoNotGrow ClaimsAreLookedUpByProbes ListAndTailReadByIndex AmountsAgree
  # cmd/railhead
  Sentences
  # relayer
  NoMemory BudgetRace KilledBackends
)

short=()
if [[ ${1:-} == --short ]]; then
  short=(-short -skip "^Test($(IFS='|'; echo "${long[*]}"))\$")
  shift
fi
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
  "$go" -C "$module" test "${packages[@]}" "${short[@]}" "$@" || result=FAILED
  [[ $result == ok ]] || failed=1
  took+=("$(printf 'test: %-8s %-6s %5d s' "$module" "$result" $((SECONDS - start)))")
done
printf '%s\n' "${took[@]}"
exit "$failed"
