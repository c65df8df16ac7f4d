#!/usr/bin/env bash
# A caller's journey, by README.md, docs/ingest.md and docs/cli.md: enqueue, learn the outcome, repeat the same call, and be refused.
. "$(dirname "$0")/journey.sh"

types "export RAILHEAD_INGEST_URL='$(login ingest)'"

# The first payment, and what became of it.
copies README.md sql 1 >enqueue.sql
types 'psql "$RAILHEAD_INGEST_URL" -f enqueue.sql'
says 'PENDING +\| f'
awaits 15 "psql \"\$RAILHEAD_INGEST_URL\" -c \"SELECT state, certainty, rail_reference FROM railhead.payment_status('invoice-4711', 'invoice-4711-payment')\"" \
  'DISPATCHED +\| ACCEPTED +\| RS[0-9]+'

# The same key again is the first instruction; other content under it, or a second key, is refused.
types 'psql "$RAILHEAD_INGEST_URL" -f enqueue.sql'
says 'DISPATCHED +\| t'
sed 's/10[.]50/10.51/' enqueue.sql >other-content.sql
ends 3 'psql "$RAILHEAD_INGEST_URL" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -f other-content.sql'
says 'RH001'
says 'CONSTRAINT NAME: +SAME_CONTENT'
sed 's/invoice-4711-payment/a-fresh-key/' enqueue.sql >second-key.sql
ends 3 'psql "$RAILHEAD_INGEST_URL" -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -f second-key.sql'
says 'RH007'

# A refusal inside a transaction of one's own, and the same payment put right.
copies docs/ingest.md sql 1 >savepoint.sql
types 'psql "$RAILHEAD_INGEST_URL" -v VERBOSITY=verbose -f savepoint.sql'
says 'RH002'
says 'COLUMN NAME: +payload.amount'
says 'CONSTRAINT NAME: +FORM'
awaits 15 "psql \"\$RAILHEAD_INGEST_URL\" -c \"SELECT state, certainty FROM railhead.payment_status('INV-8', 'INV-8-a')\"" 'DISPATCHED +\| ACCEPTED'

# A file of instructions: a bad line stops no other, and the file is resumed by running it again.
copies docs/cli.md json 1 >instructions.jsonl
types 'railhead enqueue --file instructions.jsonl'
says '^1.enqueued.INV-7.'
sed 's/INV-7/INV-7-b/g; s/"bank"/"bnak"/' instructions.jsonl | tee -a instructions.jsonl >/dev/null
ends 7 'railhead enqueue --file instructions.jsonl'
says '^1.replayed.INV-7.'
says '^2.refused.INV-7-b.RH003.'

# A payment that the bank refuses.
types "$(switch refuse)"
types "railhead enqueue --instruction-id poor-1 --participant-id p1 --idempotency-key poor-1 --rail bank --amount 10.50 --currency EUR --payload '{\"debtor\":{\"account\":\"a\"},\"creditor\":{\"account\":\"b\"}}'"
awaits 15 "psql \"\$RAILHEAD_INGEST_URL\" -c \"SELECT state, certainty, rail_code, waits_for_person FROM railhead.payment_status('poor-1', 'poor-1')\"" \
  'FAILED +\| REFUSED +\| AM04 +\| t'
types "$(switch normal)"
finish
