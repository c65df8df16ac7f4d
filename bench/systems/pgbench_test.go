package systems

import "testing"

const pgbenchReport = `pgbench (15.18)
transaction type: script.sql
number of transactions actually processed: 800/800
number of failed transactions: 0 (0.000%)
latency average = 0.441 ms
initial connection time = 9.312 ms
tps = 18132.400000 (without initial connection time)
`

func TestPgbenchRate(t *testing.T) {
	rate, err := pgbenchRate([]byte(pgbenchReport), 800)
	if err != nil || rate != 18132.4 {
		t.Errorf("rate is %v, %v; want 18132.4", rate, err)
	}
	if _, err := pgbenchRate([]byte(pgbenchReport), 801); err == nil {
		t.Error("a report of fewer runs than were asked for was taken")
	}
	if _, err := pgbenchRate([]byte("number of transactions actually processed: 800/800\n"), 800); err == nil {
		t.Error("a report without a rate was taken")
	}
}
