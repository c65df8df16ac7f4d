# Named steps of a long run, for .ci/run and scripts/nightly.sh to source: each one's result and time are said at the
# end, and one that fails stops none of the others.

summary=()
failed=0

# step NAME COMMAND...
step() {
  local name=$1 start=$SECONDS result=ok
  shift
  printf '\n=== %s: %s\n' "$name" "$*"
  "$@" || result=FAILED
  [[ $result == ok ]] || failed=1
  summary+=("$(printf '%-12s %-7s %5d s' "$name" "$result" $((SECONDS - start)))")
}

# finish says what became of each, and exits with 1 if one failed.
finish() {
  printf '\n=== summary\n'
  printf '%s\n' "${summary[@]}"
  printf '%-12s %-7s %5d s\n' total "" "$SECONDS"
  exit "$failed"
}
