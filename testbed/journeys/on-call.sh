#!/usr/bin/env bash
# The journey of an operator on call at 3 a.m., by docs/operations.md, docs/unknown-outcomes.md and the runbooks: 500
# payments failed, three have an unknown outcome, one is stuck. The tool alone finds and ends them.
. "$(dirname "$0")/journey.sh"

ingest=$(login ingest)
bank=$(switch normal | sed -E 's/^curl -X PUT ([^/]+).*/\1/')

# payments prints a line for each of $2 payments to creditor $1, to be enqueued; $3 is more of the line.
payments() {
  local n
  for ((n = 1; n <= $2; n++)); do
    printf '{"instruction_id":"%s-%d","participant_id":"p%d","idempotency_key":"%s-%d","rail_type":"bank",%s"payload":%s}\n' "$1" "$n" $((n % 7)) "$1" "$n" "${3:-}" \
      "{\"amount\":\"12.50\",\"currency\":\"EUR\",\"debtor\":{\"account\":\"me\"},\"creditor\":{\"account\":\"$1\"}}"
  done
}
expires() { printf '"expires_at":"%s",' "$(date -u -d "$1 seconds" +%FT%TZ)"; }
enqueue() { RAILHEAD_INGEST_URL=$ingest railhead enqueue --file - >scene.txt 2>&1 || fail "the scene was not set: $(<scene.txt)"; }
faults() { curl -sS --fail-with-body -X PUT "$bank/admin/faults" -d "{\"rules\":[$1]}" >scene.txt || fail "the scene was not set: $(<scene.txt)"; }
colleague() { RAILHEAD_OPERATOR_URL=$(login 'operator 2') railhead "$@" >scene.txt 2>&1 || fail "the scene was not set: $(<scene.txt)"; }

# until_letters waits until $3 dead letters of a reason and a code are open.
until_letters() {
  local deadline=$((SECONDS + 40))
  until RAILHEAD_READER_URL=$(login reader) railhead dead-letter list --by-code -o jsonl >scene.txt &&
    jq -es --arg reason "$1" --arg code "$2" --argjson wanted "$3" 'map(select(.reason == $reason and .error_code == $code).letters) | add == $wanted' scene.txt >/dev/null; do
    ((SECONDS < deadline)) || fail "the scene was not set: no $3 dead letters $1 $2: $(<scene.txt)"
    sleep 0.5
  done
}

# What happened before the call. The bank loses requests and answers, and its index is behind: it says of a payment that
# it has executed that there is none. It has closed an account. A colleague paused it, and 480 payments expired.
faults '{"kind":"drop_after","match":{"creditor":"lost-answer"}}, {"kind":"drop_before","match":{"creditor":"lost-request"}},
  {"kind":"inquiry_not_found","match":{"creditor":"lost-answer"}}, {"kind":"refuse","code":"AC04","match":{"creditor":"closed-account"}}'
{ payments lost-answer 2 "$(expires 5)"; payments lost-request 1 "$(expires 5)"; payments closed-account 20; } | enqueue
until_letters FAILED AC04 20
colleague rail pause bank --reason 'their maintenance, ticket 4710'
payments late 480 "$(expires 2)" | enqueue
until_letters EXPIRED EXPIRED 480
colleague rail resume bank --reason 'they are back'
until_letters OUTCOME_UNKNOWN EXPIRED 3
faults ''
began=$(date +%s) # of the call

types "export RAILHEAD_READER_URL='$(login reader)'"
types "export RAILHEAD_OPERATOR_URL='$(login operator)'"
types 'railhead status'
says '^bank .* 480 EXPIRED,'
types 'railhead dead-letter list --by-code'
says '^EXPIRED +EXPIRED +bank +480 .* 6000.00 +EUR'
says '^FAILED +AC04 +bank +20 .* 250.00 +EUR'
says '^OUTCOME_UNKNOWN +EXPIRED +bank +3 .* 37.50 +EUR'

# What may have been paid comes first.
types 'railhead dead-letter list --reason OUTCOME_UNKNOWN --rail bank'
says ' lost-answer-1 '
types 'railhead dead-letter acknowledge lost-answer-1 --reason "asking the bank, ticket 4711"'
types 'railhead payment show lost-answer-1'
says 'money +outcome unknown'
types 'railhead payment inquire lost-answer-1 --reason "ticket 4711"'
awaits 15 'railhead payment show lost-answer-1' 'state +DISPATCHED'

# The second one is on the statement.
key=$(railhead payment show lost-answer-2 -o json | jq -r .rail_key)
types "curl -sS $bank/ledger | grep $key"
says EXECUTED
reference=$(jq -r .id said.txt)
types "railhead dead-letter resolve lost-answer-2 --executed --rail-reference $reference \\
  --evidence-date $(date -u +%F) --document \"statement 146, line 9\" --reason \"on the statement\""
types 'railhead payment show lost-answer-2'
says 'money +executed: by evidence of railhead_operator_login, statement 146, line 9'

# The third one never arrived: the bank's word is needed in addition to ours.
types 'railhead payment inquire lost-request-1 --reason "ticket 4711"'
awaits 15 'railhead payment show lost-request-1' 'ASKED'
row=$(railhead payment show lost-request-1 -o json | jq .last_row)
types "railhead dead-letter resolve lost-request-1 --not-executed --row $row \\
  --evidence-date $(date -u +%F) --document \"mail of their operations desk, ticket 4711\" --reason \"they never got it\""
types 'railhead dead-letter show lost-request-1'
types 'railhead dead-letter close lost-request-1 --reason "the participant pays in another way"'

# The account is closed: that can't be paid, and the participants know.
types 'railhead dead-letter list --code AC04 --limit 1000 -o jsonl >letters.jsonl'
types 'jq -r .outbox_id letters.jsonl | xargs railhead dead-letter close --reason "account closed, participants told, ticket 4712"'

# What expired is wanted still.
types 'railhead dead-letter show late-1'
says 'To try again, if its participant still wants it: railhead dead-letter replay .* --expires-at TIME '
types 'railhead dead-letter list --reason EXPIRED --limit 1000 -o jsonl >letters.jsonl'
types "jq -r .outbox_id letters.jsonl | xargs railhead dead-letter replay --reason \"not executed, ticket 4711\" --expires-at $(date -u -d '1 hour' +%FT%TZ)"
awaits 40 'railhead status' '^bank +no +0 +0 '
types 'railhead dead-letter list --reason EXPIRED'
says '^no dead letter'
types 'railhead payment show late-480'
says 'state +DISPATCHED'

# A payment is stuck: the bank was busy, and asked for ten minutes.
faults '{"kind":"status_before","status":429,"retry_after_s":600,"match":{"creditor":"busy"}}'
payments busy 1 | enqueue
awaits 15 'railhead payment list --state PENDING' ' RAIL_BUSY/429 '
faults ''
types 'railhead payment show busy-1'
says 'next +SEND in [0-9]+m'
types 'railhead payment send-now busy-1 --reason "the bank is up again"'
awaits 15 'railhead payment show busy-1' 'state +DISPATCHED'

# Who did what, and why.
types 'railhead log --since 1h --act RESOLVE'
says ' RESOLVE +.*lost-answer-2.* by railhead_operator_login: on the statement'
types 'railhead log --since 1h --payment busy-1'
says ' SEND_NOW '
types 'railhead log --act PAUSE_RAIL --subject bank'
says ' by railhead_operator2_login: their maintenance, ticket 4710'
finish
