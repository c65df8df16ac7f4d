-- One enqueue of the floor. The id leads with the time, as that of floor.go does.
\set n random(1, 1000000000)
INSERT INTO pending (id, n, participant, payload) VALUES (
  encode(int8send((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint << 16) | 28672 | (:n % 4096))
    || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid,
  :n, 'participant-0001',
  '{"amount": "1234.56", "currency": "EUR", "debtor": {"name": "Example Trading Ltd", "account": "DE89370400440000000000"}, "creditor": {"name": "Sample Supplies BV", "account": "NL91ABNA0123456789"}, "purpose": "SUPP", "reference": "invoice 123456"}');
