#!/usr/bin/env bash
# Runs go test for packages of any module of the repository, each in its own module, one module after the other. Packages
# are named from the root: ./ledger, ./testbed/model, ./bench; ./... are those of all modules.
#
#   scripts/test.sh [--short|--merge|--long] 'PKG...' [ARGS...]     GO names the go command; ARGS are arguments of go test
#
# --merge gives go test -short, and leaves out the tests of the list long; --short leaves out those of the list whole too,
# and --long runs those of the list long alone. All modules are tested even if one fails; the last lines say how long each
# took.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/modules.sh

# Tests that take longer than 5 seconds: they play one rule in very many ways, or wait for real time. make test LONG=1 and
# make nightly run them, .ci/run those of cells.
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
  # testbed/cells, testbed/faults, testbed/outcomes
  NemesisOfCells Nemesis EventsRun EveryCell
)

# Tests that start whole installations, build other revisions, or try a thing on every row of a long table. .ci/run runs
# them with all others before a merge (make test MERGE=1), and who changes what they try runs their package.
whole=(
  # proofs, internal/readme, cmd/railhead
  Offences Printed SeenIsSo TypedExamples TokenRevokedWhileItIsCreated NothingMarkedComesOut MovedCells DoubtedCells
  # bench, bench/against, bench/growth
  EverySizeOfArchiveRuns CommonModesRun ARealRevisionIsBuiltAndRun TinyRun CalibratedByOneCell Prediction WorseAssumptions
  # testbed
  Faults MutantsOfSQL CheapMutantsAreCaught BenchFindsWhatIsMissed RunToAStream RunToATopic Upgrade LateMatrix Drill Clicks
  WithoutMajority KafkaReplies NATSReplies
)

pattern() { local IFS='|'; echo "^Test($*)\$"; }
form=()
case ${1:-} in
  --short) form=(-short -skip "$(pattern "${long[@]}" "${whole[@]}")"); shift ;;
  --merge) form=(-short -skip "$(pattern "${long[@]}")"); shift ;;
  --long) form=(-run "$(pattern "${long[@]}")"); names=$(IFS='|'; echo "${long[*]}"); shift ;;
esac
go=${GO:-go}
read -ra wanted <<<"$1"
shift

took=() failed=0
for module in "${modules[@]}"; do
  mapfile -t packages < <(packages_in "$module" "${wanted[@]}")
  if [[ ${form[0]:-} == -run ]]; then # nothing else need be linked
    mapfile -t packages < <("$go" -C "$module" list -f '{{$d := .Dir}}{{$p := .ImportPath}}{{range .TestGoFiles}}{{$p}} {{$d}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$p}} {{$d}}/{{.}}
{{end}}' "${packages[@]}" | while read -r package file; do
      if grep -qE "^func Test(${names})\(" "$file"; then echo "$package"; fi
    done | sort -u)
  fi
  ((${#packages[@]})) || continue
  start=$SECONDS result=ok
  # Compiles also what no test imports, and links nothing.
  "$go" -C "$module" list -export "${packages[@]}" >/dev/null || result=FAILED
  # Many tests wait, for a timeout or a worker: with one for each processor two cores would idle.
  "$go" -C "$module" test -parallel 4 "${packages[@]}" "${form[@]}" "$@" || result=FAILED
  [[ $result == ok ]] || failed=1
  took+=("$(printf 'test: %-8s %-6s %5d s' "$module" "$result" $((SECONDS - start)))")
done
printf '%s\n' "${took[@]}"
exit "$failed"
