package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// mixed is a file with valid lines between all that can be wrong with one.
const mixed = "\ufeff" + `{"instruction_id":"c1","participant_id":"p1","idempotency_key":"k1","rail_type":"bank","payload":{"amount":"1.00","currency":"EUR"}}` + "\r\n" + `

not JSON at all
{"instruction_id":"c2","participant_id":"p1","idempotency_key":"k2","rail_type":"bank","payload":{"amount":"1","amount":"9","currency":"EUR"}}
{"instruction_id":"c2","participant_id":"p1","idempotency_key":"k2","rail_type":"bank","instruction_id":"c3","payload":{"amount":"1","currency":"EUR"}}
{"Instruction_ID":"c2"}
{"instruction_id":"c2","priority":"high"}
{"instruction_id":"c2","priority":5}
{"instruction_id":"c2","not_before":"tomorrow"}
{"instruction_id":7}
[1, 2]
null
{"instruction_id":"c2","participant_id":"p1","idempotency_key":"k2","rail_type":"nowhere","payload":{"amount":"1","currency":"EUR"}}
{"instruction_id":"c2","participant_id":"p1","idempotency_key":"k2","rail_type":"bank","payload":{"amount":"1","currency":"EUR","note":"\ud800"}}
{"instruction_id":"c2","participant_id":"p1","idempotency_key":"k2","rail_type":"bank","payload":{"amount":"1","currency":"EUR","a":{"Pan":"4"}}}
{"instruction_id":"c4","participant_id":"p1","idempotency_key":"k4","rail_type":"bank","payload":{"amount":"4","currency":"EUR"},"priority":0,"headers":null,"expires_at":"2999-01-01T00:00:00Z"}
{"instruction_id":"c1","participant_id":"p1","idempotency_key":"k1","rail_type":"bank","payload":{"currency":"EUR", "amount":"1.00"}}
{"instruction_id":"c1","participant_id":"p1","idempotency_key":"k1","rail_type":"bank","payload":{"amount":"2.00","currency":"EUR"}}
{"instruction_id":"c1","participant_id":"p1","idempotency_key":"k5","rail_type":"bank","payload":{"amount":"1.00","currency":"EUR"}}
{"instruction_id":"c5","participant_id":"p1","idempotency_key":"k5","rail_type":"bank","payload":{"amount":"5","currency":"EUR"}}`

// TestEnqueueFile insists that every bad line has its result and that every valid
// one goes in, in order, once, however often the file is run.
func TestEnqueueFile(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	golden(t, "enqueue_file", func() string {
		got := who.want(exitPartial, "enqueue", "--file", writeFile(t, "i.jsonl", mixed))
		return got.out + "---\n" + got.errors
	}())
	who.stdin = mixed
	golden(t, "enqueue_file_json", who.want(exitPartial, "enqueue", "--file", "-", "-o", "json").out)
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_pending"); n != 3 {
		t.Errorf("%d instructions wait, want 3", n)
	}
}

// TestFileBehindAClosedGate: the command asks for no correction of valid lines that a
// closed gate refuses, and distinguishes them from invalid ones.
func TestFileBehindAClosedGate(t *testing.T) {
	t.Parallel()
	who := at(t, celltest.New(t))
	const valid = `{"instruction_id":"c1","participant_id":"p1","idempotency_key":"k1","rail_type":"bank","payload":{"amount":"1.00","currency":"EUR"}}` + "\n"
	run := func(code int, lines string) string {
		t.Helper()
		return who.want(code, "enqueue", "--file", writeFile(t, "i.jsonl", lines)).errors
	}
	who.want(exitOK, "intake", "close", celltest.Bank, "--reason", "their new year")
	for lines, want := range map[string]string{
		valid: "1 lines were refused because enqueue is closed for them (RH014); run the file again once " +
			"it is open: the enqueued ones are not changed",
		valid + "{}\n" + "7\n": "3 lines were refused; correct 2 of them. Enqueue is closed for the other 1 (RH014): run " +
			"the file again once it is open: the enqueued ones are not changed",
		"{}\n": "1 lines were refused; correct them and run the file again: the enqueued ones are not changed",
	} {
		if said := run(exitPartial, lines); !strings.Contains(said, want) {
			t.Errorf("%q: it says %q, want %q", lines, said, want)
		}
	}
	who.want(exitOK, "intake", "open", celltest.Bank, "--reason", "it is over")
	run(exitOK, valid)
}

// TestEnqueueManyBatches enqueues more than one transaction, in a cell that accepts
// less at once than the command sends.
func TestEnqueueManyBatches(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("UPDATE railhead.payment_outbox_settings SET batch_items_max = 200")
	const lines = 1201
	var file strings.Builder
	for n := range lines {
		fmt.Fprintf(&file, `{"instruction_id":"i%d","participant_id":"p","idempotency_key":"k","rail_type":"bank","payload":{"amount":"1","currency":"EUR"}}`+"\n", n)
	}
	who := at(t, cell)
	who.stdin = file.String()
	for _, result := range []string{"enqueued", "replayed"} {
		got := who.want(exitOK, "enqueue", "-f", "-", "-o", "json")
		decoder := json.NewDecoder(strings.NewReader(got.out))
		for n := range lines {
			var line resultLine
			if err := decoder.Decode(&line); err != nil || line.Line != n+1 || line.SequenceID != int64(n+1) ||
				line.Result != result {
				t.Fatalf("%+v, %v", line, err)
			}
		}
	}
}

func TestEnqueueByFlags(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	flags := []string{"enqueue", "--instruction-id", "i1", "--participant-id", "p1", "--idempotency-key", "k1", "--rail",
		celltest.Bank,
		"--amount", "10.50", "--currency", "EUR", "--payload", "@-", "--priority", "urgent", "--header",
		"traceparent=00-a-b-01", "--expires-at", "2999-01-01T00:00:00Z"}
	who.stdin = `{"payee": "x"}`
	golden(t, "enqueue", who.want(exitOK, flags...).out)
	golden(t, "enqueue_json", who.want(exitOK, append(flags, "-o", "json")...).out)
	var payload, headers string
	var priority int
	cell.QueryRow("SELECT payload::text, headers::text, priority FROM railhead.v_outbox_pending", nil, &payload,
		&headers, &priority)
	if payload != `{"payee": "x", "amount": "10.50", "currency": "EUR"}` || headers != `{"traceparent": "00-a-b-01"}` || priority != 0 {
		t.Errorf("stored %s, %s, %d", payload, headers, priority)
	}
	for says, stdin := range map[string]string{
		"the payload names amount too": `{"amount": "9"}`, "given twice": `{"a": 1, "a": 2}`, "must be a JSON object": `[]`, "breaks at byte": `{x`,
	} {
		who.stdin = stdin
		if got := who.want(exitUsage, flags...); !strings.Contains(got.errors, says) {
			t.Errorf("%s: %s", stdin, got.errors)
		}
	}
}

// TestLineReader reads lines that are too long between valid ones.
func TestLineReader(t *testing.T) {
	t.Parallel()
	const valid = `{"instruction_id":"i"}`
	long := `{"payload":"` + strings.Repeat("x", lineBytesMax) + `"}`
	lines := newLineReader(strings.NewReader(valid + "\n" + long + "\n\n" + valid + "\n" + long))
	for _, want := range []struct {
		no    int
		state string
	}{{1, ""}, {2, "RH005"}, {4, ""}, {5, "RH005"}} {
		line, err := lines.next()
		if err != nil {
			t.Fatal(err)
		}
		state := ""
		if line.fault != nil {
			state = line.fault.SQLState
		}
		if line.no != want.no || state != want.state || state == "" && line.in.InstructionID != "i" {
			t.Errorf("line %d, %q, %+v; want %d, %q", line.no, state, line.in, want.no, want.state)
		}
	}
	if _, err := lines.next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// FuzzLines checks that no file stops the reader, that every instruction which it returns
// is valid JSON, and that no refusal contains a value.
func FuzzLines(f *testing.F) {
	f.Add([]byte(mixed))
	f.Add([]byte("{}\n{\"payload\":{}}\n\xff\n\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := newLineReader(bytes.NewReader(text))
		for no := 0; ; {
			line, err := lines.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil || line.no <= no {
				t.Fatalf("line %d after %d, %v", line.no, no, err)
			}
			no = line.no
			if line.fault == nil && line.in.Payload != nil && !json.Valid(line.in.Payload) {
				t.Fatalf("line %d: the payload is not JSON", no)
			}
		}
	})
}

// TestEnqueueOnce: a flag, and a field of a line, which is true or false, request at most one send.
func TestEnqueueOnce(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	who.want(exitOK, "enqueue", "--instruction-id", "i1", "--participant-id", "p1", "--idempotency-key", "k1", "--rail",
		"bank",
		"--amount", "1.00", "--currency", "EUR", "--send-once")
	const line = `{"instruction_id":"i2","participant_id":"p1","idempotency_key":"k2","rail_type":"bank","payload":{"amount":"1.00","currency":"EUR"},"send_once":true}`
	who.want(exitOK, "enqueue", "--file", writeFile(t, "i.jsonl", line))
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_instructions WHERE send_once"); n != 2 {
		t.Errorf("%d are to be sent once, want 2", n)
	}
	got := who.want(exitPartial, "enqueue", "--file", writeFile(t, "j.jsonl", strings.Replace(line, "true", `"yes"`, 1)))
	if !strings.Contains(got.out, "send_once must be true or false") {
		t.Errorf("said %q", got.out)
	}
}

// TestFileOfOtherCells: the command asks for no correction of valid lines whose participants are another cell's, and
// says that the file can be run again.
func TestFileOfOtherCells(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	who.env = append(who.env, "RAILHEAD_OPERATOR_URL_EAST="+cell.URL(celltest.Operator))
	who.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow")
	cell.Exec(`UPDATE railhead.payment_buckets SET mine = false WHERE bucket = railhead.cell_bucket('p1')`)
	line := func(key, participant string) string {
		return fmt.Sprintf(`{"instruction_id":%q,"participant_id":%q,"idempotency_key":"k","rail_type":"bank",`+
			`"payload":{"amount":"1.00","currency":"EUR"}}`+"\n", key, participant)
	}
	for lines, want := range map[string]string{
		line("a", "p1"): "1 lines were refused because this cell does not take their participants now (RH009); run the " +
			"file again unchanged",
		line("b", "p1") + line("c", "p2") + "{}\n": "2 lines were refused; correct 1 of them. This cell does not take the " +
			"participants of 1 now (RH009): run the file again unchanged",
	} {
		said := who.want(exitPartial, "enqueue", "--file", writeFile(t, "i.jsonl", lines)).errors
		if !strings.Contains(said, want) {
			t.Errorf("%q: it says %q, want %q", lines, said, want)
		}
	}
}

// TestEnqueueWithAnEmptyMoment: the empty text and the zero time of a variable without a value are no moments. Taken
// for none, they would take the caller's deadline away.
func TestEnqueueWithAnEmptyMoment(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	one := []string{"enqueue", "--instruction-id", "i1", "--participant-id", "p1", "--idempotency-key", "k1", "--rail",
		"bank", "--payload", `{"amount":"1.00","currency":"EUR","debtor":{"account":"a"},"creditor":{"account":"b"}}`}
	for _, moment := range []string{"", "0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00"} {
		for _, flag := range []string{"--expires-at", "--not-before"} {
			got, says := who.want(exitUsage, append(one, flag, moment)...), " must be a timestamp"
			if moment == "" {
				says = " was given without a value"
			}
			if !strings.Contains(got.errors, flag+says) {
				t.Errorf("%s %q: %s", flag, moment, got.errors)
			}
		}
		for _, field := range []string{"expires_at", "not_before"} {
			_, err := parseLine([]byte(`{"instruction_id":"i","` + field + `":"` + moment + `"}`))
			if err == nil || !strings.Contains(err.Error(), field+" must be a timestamp") {
				t.Errorf("%s %q of a line: %v", field, moment, err)
			}
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`); n != 0 {
		t.Errorf("%d are stored", n)
	}
	who.want(exitOK, one...)
}
