# What the journeys have in common. Each is typed in a folder of its own, along with what `make run` has
# printed:
#
#   . "$(dirname "$0")/journey.sh"
#   types 'railhead status'          a command line, which must end well
#   ends 9 'railhead ...'            one that must end with that exit code
#   says 'bank +-'                   what the last line must have printed, as a regular expression
#   awaits 20 'railhead ...' 'PAID'  a line that is typed again until it prints that, for at most 20 s; it counts once
#   finish                           the last line: how many lines were typed, and how long it took
set -euo pipefail

journey=$(basename "$0" .sh)
pages=$PWD
printed=$PWD/$JOURNEYS/run.txt
mkdir -p "$JOURNEYS/$journey"
cd "$JOURNEYS/$journey"

commands=0
began=$(date +%s)
said= # what the last line has printed
export PSQLRC=/dev/null

fail() {
  printf '%s\njourney %s: %s\n' "$said" "$journey" "$1" >&2
  exit 1
}

# login and switch print the line that make run has printed below the comment of that name.
login() { below "$1" | sed "s/^'//; s/'\$//"; }
switch() { below "$1"; }
below() {
  local line
  line=$(grep -A1 "^# $1  " "$printed" | sed -n 2p)
  [[ -n $line ]] || fail "make run has printed nothing for $1"
  printf '%s\n' "$line"
}

# copies prints the n-th block of a language on a page, to be pasted into a file.
copies() {
  local block
  block=$(awk -v fence='```' -v language="$2" -v wanted="$3" '
    $0 == fence { inside = 0 }
    inside && n == wanted
    $0 == fence language { inside = 1; n++ }' "$pages/$1")
  [[ -n $block ]] || fail "$1 has no block $3 in $2"
  printf '%s\n' "$block"
}

# lines runs a line and keeps what it prints.
line() {
  local status=0
  eval "$1" >said.txt 2>&1 || status=$?
  said=$(<said.txt)
  return "$status"
}

shows() {
  head -n 12 said.txt | cut -c1-200
  (($(wc -l <said.txt) <= 12)) || echo "... ($(wc -l <said.txt) lines)"
}

ends() {
  local status=0
  commands=$((commands + 1))
  printf '\n$ %s\n' "$2"
  line "$2" || status=$?
  shows
  ((status == $1)) || fail "exit code $status, not $1, of: $2"
}

types() { ends 0 "$1"; }

says() { grep -Eq -e "$1" said.txt || fail "this was not printed: $1"; }

awaits() {
  local deadline=$((SECONDS + $1))
  commands=$((commands + 1))
  printf '\n$ %s\n' "$2"
  until line "$2" && grep -Eq -e "$3" said.txt; do
    ((SECONDS < deadline)) || fail "not printed within $1 s by $2: $3"
    sleep 0.3
  done
  shows
}

finish() { printf '\njourney %s: %d commands, %d s\n\n' "$journey" "$commands" "$(($(date +%s) - began))"; }
