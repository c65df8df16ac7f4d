package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// marker is in every payload field, key, header, secret and password, and in
// every answer of a bank; markedAmount is every amount. Neither may be in any output
// except that of a command that asks for this payment.
const (
	marker       = "mk7q"
	markedAmount = "8642.31"
)

// marked is an installation that runs as processes of its own, with markers in
// every place, and everything that comes out of it.
type marked struct {
	t        *testing.T
	cell     *celltest.Cell
	who      command
	dir      string
	came     bytes.Buffer // all that must not hold a marker
	spans    syncBuffer
	outputs  []*syncBuffer
	callback []byte
}

// syncBuffer is written by one goroutine while others read.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// with puts the marker into a connection string as its password.
func withPassword(url string) string {
	login, rest, _ := strings.Cut(strings.TrimPrefix(url, "postgres://"), "@")
	user, _, _ := strings.Cut(login, ":")
	return "postgres://" + user + ":" + marker + "-password@" + rest
}

func newMarked(t *testing.T) *marked {
	t.Helper()
	m := &marked{t: t, cell: celltest.New(t), dir: t.TempDir(), callback: []byte(marker + " signs the callbacks")}
	bank := httptest.NewServer(&markedBank{sent: make(map[string]string)})
	t.Cleanup(bank.Close)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		io.Copy(&m.spans, r.Body)
	}))
	t.Cleanup(collector.Close)
	same := strings.Replace(markedProfile(`, "resend_on_unknown": "SAME_KEY", "key_window": "24h", "answer_covers_key": true`),
		`"id_after_refusal": "SAME"`, `"id_after_refusal": "NEW"`, 1)
	locked := strings.Replace(same, `"resend_on_unknown"`, `"rail_refused": {"after": 1}, "resend_on_unknown"`, 1)
	asked := markedProfile(`, "resend_on_unknown": "NEVER", "inquiry": {"intervals": ["50ms"], "max": 2, "not_found": "INCONCLUSIVE"}`)
	later := strings.Replace(markedProfile(`, "resend_on_unknown": "NEVER", "callback_deadline": "1h"`), "FINAL", "PROVISIONAL", 1)
	strict := markedProfile(`, "resend_on_unknown": "NEVER", "checks": {"fields": [{"field": "debtor.account", "rule": "IBAN"}]}`)
	m.cell.SetTimeBudget(outbox.TimeBudget{
		ClaimTimeout: time.Minute, StartWithin: time.Second, RecordWithin: 2 * time.Second, Drain: 5 * time.Second,
		HeartbeatStale: 2 * time.Second,
	})
	for rail, profile := range map[string]string{"marked": same, "asked": asked, "later": later, "locked": locked,
		"strict": strict, celltest.Bank: same} {
		m.cell.ApplyProfile(rail, profile)
	}
	rails := writeFile(t, "rails.yaml", "rails:"+markedRail("marked", same, bank.URL, "")+markedRail("asked", asked,
		bank.URL, markedInquiry)+
		markedRail("later", later, bank.URL, markedCallback)+markedRail("locked", locked, bank.URL, "")+markedRail("strict",
		strict, bank.URL, ""))
	m.who = command{t: t, env: []string{
		"RAILHEAD_ADMIN_URL=" + withPassword(m.cell.URL("")),
		"RAILHEAD_INGEST_URL=" + withPassword(m.cell.URL(celltest.Ingest)),
		"RAILHEAD_OPERATOR_URL=" + withPassword(m.cell.URL(celltest.Operator)),
		"RAILHEAD_READER_URL=" + withPassword(m.cell.URL(celltest.Readonly)),
		"RAILHEAD_AUDITOR_URL=" + withPassword(m.cell.URL(celltest.Auditor)),
		"RAILHEAD_RELAYER_URL=" + withPassword(m.cell.URL(celltest.Relayer)),
		"RAILHEAD_REAPER_URL=" + withPassword(m.cell.URL(celltest.Reaper)),
		"RAILHEAD_CALLBACKS_URL=" + withPassword(m.cell.URL(celltest.Callbacks)),
		"RAILHEAD_RAILS_FILE=" + rails, "RAILHEAD_LOG_LEVEL=debug",
		"MARKED_BEARER=" + marker + "-bearer-secret", "MARKED_HEADER=" + marker + "-header-secret",
		"MARKED_HMAC=" + marker + "-hmac-secret-of-some-length",
		"MARKED_CALLBACK=whsec_" + base64.StdEncoding.EncodeToString(m.callback),
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_HEADERS=authorization=" + marker + "-collector",
		"OTEL_BSP_SCHEDULE_DELAY=100",
		"RAILHEAD_POLL=50ms", "RAILHEAD_REAP_EVERY=200ms", "RAILHEAD_REAP_GRACE=200ms", "RAILHEAD_HEARTBEAT_EVERY=300ms",
	}}
	return m
}

// serve starts a component, and keeps all that it writes.
func (m *marked) serve(kind string, env ...string) *exec.Cmd {
	m.t.Helper()
	who := m.who
	who.env = append(append([]string{}, who.env...), env...)
	cmd := who.process(kind)
	out := &syncBuffer{}
	m.outputs = append(m.outputs, out)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

// addr waits for a component's address file.
func (m *marked) addr(name string) string {
	m.t.Helper()
	var text []byte
	m.until("nothing listens at "+name, func() (err error) {
		text, err = os.ReadFile(filepath.Join(m.dir, name))
		return err
	})
	return "http://" + strings.TrimSpace(string(text))
}

// came keeps the output.
func (m *marked) sees(got ran) ran {
	m.came.WriteString(got.out + got.errors)
	return got
}

func (m *marked) body(response *http.Response, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	io.Copy(&m.came, response.Body)
}

// enqueue enqueues an instruction by the command line, marked in every field.
func (m *marked) enqueue(id, rail string, more ...string) ran {
	m.t.Helper()
	payload := `{"debtor": {"name": "` + marker + `-debtor-name", "account": "` + marker + `-account"}, "text": "` + strings.Repeat(marker+"-long ", 300) + `", "` + marker + `-field": 1}`
	args := []string{"enqueue", "--instruction-id", id, "--participant-id", "p1", "--idempotency-key",
		marker + "-key-" + id, "--rail", rail,
		"--amount", markedAmount, "--currency", "EUR", "--payload", payload,
		"--header", "traceparent=" + marker + "-trace", "--header", "baggage=" + marker + "-baggage"}
	return m.sees(m.who.run(append(args, more...)...))
}

func (m *marked) await(what, sql string, want int) {
	m.t.Helper()
	m.until(what, func() error {
		if got := m.cell.Int(sql); got != want {
			return fmt.Errorf("%d, want %d", got, want)
		}
		return nil
	})
}

// until waits at most 90 s for so to be the case, and else shows what the components wrote.
func (m *marked) until(what string, so func() error) {
	m.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(90 * time.Second)
	for {
		err := so()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			for _, out := range m.outputs {
				m.t.Log(out.String())
			}
			m.t.Fatalf("%s: %v", what, err)
		}
	}
}

// call posts a callback; sign is whether by the right secret.
func (m *marked) call(url, event, body string, sign bool) {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, url+"/callbacks/later",
		strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	secret := m.callback
	if !sign {
		secret = []byte(marker + " is the wrong secret")
	}
	mac := hmac.New(sha256.New, secret)
	io.WriteString(mac, event+"."+stamp+"."+body)
	request.Header.Set("webhook-id", event)
	request.Header.Set("webhook-timestamp", stamp)
	request.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	request.Header.Set("traceparent", marker)
	m.body(http.DefaultClient.Do(request))
}

// TestNothingMarkedComesOut sends payments that are marked in every field along
// every path of a payment, and searches for the marks in every output:
// logs, spans, metrics, errors, answers over HTTP, operators' commands,
// the auditors' report, and the text of a rail that the database stores.
func TestNothingMarkedComesOut(t *testing.T) {
	t.Parallel()
	m := newMarked(t)

	// These are refused.
	m.badEnqueues()
	// A worker that died with a claim in hand.
	m.enqueue("dead-worker", celltest.Bank)
	newWorker(t, m.cell).claim()
	// A payload that was changed behind the ledger's back.
	m.enqueue("tampered", "marked", "--not-before", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	m.cell.Exec(`UPDATE railhead.payment_outbox_pending p
		SET payload = i.payload || '{"amount": "9999.99"}', next_attempt_at = now()
		FROM railhead.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id AND p.outbox_id = (SELECT k.outbox_id
		FROM railhead.payment_outbox_keys k WHERE k.instruction_id = 'tampered')`)
	m.enqueue("expires", "marked", "--not-before", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "--expires-at",
		time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339))
	m.cell.Exec(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 s'
		WHERE outbox_id = (SELECT k.outbox_id FROM railhead.payment_outbox_keys k WHERE k.instruction_id = 'expires')`)

	services := []*exec.Cmd{
		m.serve("run", "RAILHEAD_HTTP_ADDR_FILE="+filepath.Join(m.dir, "run")),
		m.serve("callbacks", "RAILHEAD_HTTP_ADDR_FILE="+filepath.Join(m.dir, "health"),
			"RAILHEAD_CALLBACKS_ADDR_FILE="+filepath.Join(m.dir, "callbacks")),
	}
	hows := []string{"accept", "refuse", "unmapped", "code", "garbage", "broken", "busy", "error", "hang", "drop",
		"malformed", "statusline", "header",
		"length", "cut", "redirect", "other"}
	for _, how := range hows {
		if got := m.enqueue(how+"-1", "marked"); got.code != exitOK {
			t.Fatalf("%s: %s", how, got.errors)
		}
	}
	m.enqueue("garbage-2", "asked")
	m.enqueue("strict-1", "strict")
	m.enqueue("locked-1", "locked")
	m.enqueue("later-1", "later")
	m.await("the rail that refuses us is paused", `SELECT count(*) FROM railhead.payment_rails WHERE paused`, 1)
	m.await("taken for now", `SELECT count(*) FROM railhead.payment_outbox_attempts WHERE state = 'ACCEPTED'`, 1)
	m.callbacks(m.addr("callbacks"))
	m.await("nothing waits but what can't be sent", `SELECT count(*) FROM railhead.payment_outbox_pending WHERE rail_type NOT IN ('locked', 'bank')`, 0)
	m.await("nothing is in flight", `SELECT count(*) FROM railhead.payment_outbox_claims`, 0)
	m.await("the dead worker's claim was repaired", `SELECT (count(*) > 0)::int FROM railhead.payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE'`, 1)
	m.await("it was tampered with", `SELECT count(*) FROM railhead.payment_dead_letters WHERE reason = 'TAMPERED'`, 1)
	m.await("it expired", `SELECT count(*) FROM railhead.payment_dead_letters WHERE reason = 'EXPIRED'`, 1)
	for _, path := range []string{"/metrics", "/readyz", "/healthz"} {
		for _, name := range []string{"run", "health"} {
			m.body(http.Get(m.addr(name) + path))
		}
	}
	m.people()
	m.ends(services)
	m.wrongPlaces()
	m.search()
}

// badEnqueues are refused, each for another reason.
func (m *marked) badEnqueues() {
	m.enqueue("nowhere", "no-such-rail")
	m.enqueue("twice", "marked", "--not-before", "2999-01-01T00:00:00Z") // beyond what may be waited for
	for _, payload := range []string{
		`{"debtor": {"password": "` + marker + `"}}`, `{"a": ` + marker + `}`, `{"a": "` + marker + `", "a": "` + marker + `"}`, marker, `["` + marker + `"]`,
		`{"amount": "` + marker + `"}`, `{"x": "` + strings.Repeat(marker, 30000) + `"}`, strings.Repeat(`{"`+marker+`":`, 40) + "1" + strings.Repeat("}", 40),
		`{"x": "` + marker + `\u0000"}`, `{"x": "` + marker + `\ud800"}`,
	} {
		m.sees(m.who.run("enqueue", "--instruction-id", "bad", "--participant-id", "p1", "--idempotency-key", marker+"-key",
			"--rail", "marked",
			"--amount", markedAmount, "--currency", "EUR", "--payload", payload))
	}
	// The same key with another content, and the same instruction under another key.
	one := []string{"enqueue", "--instruction-id", "conflict", "--participant-id", "p2", "--rail", celltest.Bank,
		"--currency", "EUR"}
	for _, more := range [][]string{{marker + "-key-1", markedAmount}, {marker + "-key-1", "1.00"},
		{marker + "-key-2", markedAmount}} {
		m.sees(m.who.run(append(one, "--idempotency-key", more[0], "--amount", more[1])...))
	}
	lines := `{"instruction_id":"f1","participant_id":"p3","idempotency_key":"` + marker + `-f1","rail_type":"` + celltest.Bank + `","payload":{"amount":"` + markedAmount + `","currency":"EUR","x":"` + marker + `"}}
{"instruction_id":"f2","participant_id":"p3","idempotency_key":"` + marker + `-f2","rail_type":"nowhere","payload":{"amount":"` + markedAmount + `","currency":"EUR","x":"` + marker + `"}}
{"instruction_id":"f3","participant_id":"p3","idempotency_key":"` + marker + `-f3","rail_type":"` + celltest.Bank + `","payload":{"amount":"` + marker + `","currency":"` + marker + `"}}
{"instruction_id":"f4","payload":{"a":` + marker + `}}
{"instruction_id":"f5","participant_id":"p3","idempotency_key":"` + marker + `-f5","rail_type":"` + celltest.Bank + `","priority":"` + marker + `","payload":{"amount":"1","currency":"EUR","secret":"` + marker + `"}}
{"instruction_id":"f6","participant_id":"p3","idempotency_key":"` + marker + `-f6","rail_type":"` + celltest.Bank + `","amount":"` + marker + `","payload":{"amount":"1","currency":"EUR"}}
` + marker + "\n"
	file := m.who
	file.stdin = lines
	m.sees(file.run("enqueue", "--file", "-"))
	m.sees(file.run("enqueue", "--file", "-", "-o", "json"))
	m.bySQL()
}

// bySQL enqueues as callers do, which may log the messages of the functions.
func (m *marked) bySQL() {
	conn := m.cell.Conn(m.t, celltest.Ingest)
	for _, payload := range []string{
		`{"amount": "` + marker + `", "currency": "EUR"}`, `{"amount": "` + markedAmount + `", "currency": "` + marker + `"}`, `{"amount": 8642.31, "currency": "EUR"}`,
		`{"amount": "1", "currency": "EUR", "token": "` + marker + `"}`, `{"amount": "8642.317", "currency": "EUR"}`, `{"amount": "08642.31", "currency": "EUR"}`,
		`["` + marker + `"]`, `"` + marker + `"`, `{"amount": "1", "currency": "EUR", "x": "` + strings.Repeat(marker, 30000) + `"}`,
	} {
		var n int
		err := conn.QueryRow(m.t.Context(), `SELECT sequence_id FROM railhead.enqueue_payment_outbox('sql', 'p4', $1, 'marked', $2::jsonb)`, marker+"-sql", payload).Scan(&n)
		if err == nil {
			m.t.Errorf("%.60s was taken", payload)
			continue
		}
		fmt.Fprintf(&m.came, "%s %#v\n", err, err)
		batch := `[{"instruction_id":"sql","participant_id":"p4","idempotency_key":"` + marker + `","rail_type":"marked","payload":` + payload + `}]`
		var state, text string
		if err := conn.QueryRow(m.t.Context(), `SELECT error_code, error_message FROM railhead.enqueue_payment_outbox_batch($1::jsonb)`, batch).Scan(&state, &text); err != nil {
			m.t.Errorf("%.60s: %v", payload, err)
		}
		fmt.Fprintln(&m.came, state, text)
	}
}

// callbacks come signed and unsigned, valid and broken.
func (m *marked) callbacks(url string) {
	m.t.Helper()
	var text string
	m.cell.QueryRow(`SELECT outbox_id::text FROM railhead.payment_outbox_keys
		WHERE instruction_id = 'later-1'`, nil, &text)
	id, err := payment.ParseID(text)
	if err != nil {
		m.t.Fatal(err)
	}
	key := m.cell.RailKey(id)
	says := func(key, status string) string {
		return `{"key": "` + key + `", "status": "` + status + `", "id": "REF-1", "code": "AC04", "debtor": "` + marker + `", "amount": "` + markedAmount + `"}`
	}
	m.call(url, "e1", says(key, "EXECUTED"), false)
	m.call(url, marker+"-event", says(key, "EXECUTED"), false)
	m.call(url, "e2", marker, true)
	m.call(url, "e3", `{"key": "`+marker+`", "status": "EXECUTED"}`, true)
	m.call(url, "e4", says(key, marker), true)
	m.call(url, "e5", `{"`+marker+`": `, true)
	m.call(url, "e6", `{"key": {"`+marker+`": 1}}`, true)
	m.call(url, "e7", says(payment.RailKey(payment.NewID()), "EXECUTED"), true)
	m.call(url, "e8", strings.Repeat(marker, 1<<18), true)
	m.call(url, "e9", says(key, "EXECUTED"), true)
	m.call(url, "e9", says(key, "EXECUTED"), true)
	m.call(url, "e10", says(key, "REFUSED"), true) // and it is a contradiction
}

// people runs the operators' commands; a mark is shown only to a command that asked for it.
func (m *marked) people() {
	m.t.Helper()
	m.sees(m.who.run("dead-letter", "acknowledge", "refuse-1", "--reason", "looked at"))
	m.sees(m.who.run("dead-letter", "replay", "hang-1", "--reason", "may not be"))
	m.sees(m.who.run("dead-letter", "replay", "refuse-1", "--reason", "once more"))
	m.sees(m.who.run("payment", "cancel", "accept-1", "--reason", "may not be"))
	m.sees(m.who.run("payment", "cancel", "locked-1", "--reason", "not wanted"))
	m.sees(m.who.run("payment", "show", "nothing"))
	for _, more := range [][]string{nil, {"-o", "json"}} {
		m.sees(m.who.want(exitOK, append([]string{"payment", "tail", "--since", "1h", "--once"}, more...)...))
		m.sees(m.who.want(exitOK, append([]string{"status"}, more...)...))
		m.sees(m.who.want(exitOK, append([]string{"rail", "list"}, more...)...))
		m.sees(m.who.run(append([]string{"prove"}, more...)...))
		// These may show the amount, and payment show may show the key, to their caller.
		var allowed strings.Builder
		allowed.WriteString(m.who.want(exitOK, append([]string{"payment", "list"}, more...)...).out)
		allowed.WriteString(m.who.want(exitOK, append([]string{"dead-letter", "list"}, more...)...).out)
		for _, id := range []string{"accept-1", "refuse-1", "code-1", "malformed-1", "tampered", "dead-worker", "strict-1",
			"locked-1", "garbage-2", "later-1"} {
			shown := m.who.want(exitOK, append([]string{"payment", "show", id}, more...)...).out
			allowed.WriteString(strings.ReplaceAll(shown, marker+"-key-"+id, "KEY"))
		}
		m.came.WriteString(strings.ReplaceAll(allowed.String(), markedAmount, "AMOUNT"))
	}
}

// ends stops the services in order: their last words and spans count too.
func (m *marked) ends(services []*exec.Cmd) {
	m.t.Helper()
	for _, cmd := range services {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			m.t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			m.t.Errorf("%v: %v", cmd.Args[1:], err)
		}
	}
}

// wrongPlaces are settings with secrets in them that lead nowhere or can't be read.
func (m *marked) wrongPlaces() {
	m.t.Helper()
	away := "postgres://x:" + marker + "-password@127.0.0.1:1/x?connect_timeout=2"
	bad := "postgres://x:" + marker + "-password@127.0.0.1:port/x"
	words := "host=127.0.0.1 port=bad password=" + marker + "-password"
	for _, url := range []string{away, bad, words} {
		for _, args := range [][]string{
			{"status"}, {"payment", "show", "x"}, {"roles", "diff"}, {"prove"}, {"relayer"}, {"reaper"}, {"callbacks"},
			{"rail", "pause", "--everything", "--reason", "x"},
			{"enqueue", "--instruction-id", "i", "--participant-id", "p", "--idempotency-key", marker, "--rail", "r", "--amount", markedAmount, "--currency", "EUR"},
		} {
			who := command{t: m.t, env: []string{"DATABASE_URL=" + url, "RAILHEAD_RAILS_FILE=" + m.dir + "/none"}}
			if url == away && (args[0] == "relayer" || args[0] == "reaper" || args[0] == "callbacks") {
				continue // they wait for the database
			}
			if got := m.sees(who.run(args...)); got.code == exitOK {
				m.t.Errorf("%v went well at %s", args, url)
			}
		}
	}
	for _, text := range []string{
		"rails: [{rail_type: marked, adapter: http, profile: {acceptance: FINAL}, http: {base_url: " +
			"'https://bank.example', headers: {Authorization: " + marker + "}, send: {path: /x}}}]",
		"rails: [{rail_type: marked, adapter: http, profile: {acceptance: FINAL}, http: {base_url: 'https://u:" + marker +
			"@bank.example', send: {path: /x}}}]",
		"rails: [{rail_type: marked, adapter: http, http: {bearer: " + marker + "}}]",
	} {
		who := m.who
		who.env = append(append([]string{}, who.env...), "RAILHEAD_RAILS_FILE="+writeFile(m.t, "bad.yaml", text))
		if got := m.sees(who.run("relayer")); got.code == exitOK {
			m.t.Error("a rails file with a secret in it was taken")
		}
	}
}

// search searches for marks, and first checks that there is output to search.
func (m *marked) search() {
	t := m.t
	t.Helper()
	var kept string
	m.cell.QueryRow(`SELECT string_agg(concat_ws(' ', error_message, error_code, rail_code, code_table, result, worker_id, render_version), E'\n')
		FROM railhead.payment_outbox_attempts`, nil, &kept)
	var people string
	m.cell.QueryRow(`SELECT concat(
		(SELECT string_agg(concat_ws(' ', pause_reason, paused_by), ' ') FROM railhead.payment_rails),
		(SELECT string_agg(concat_ws(' ', error_code, note), ' ') FROM railhead.payment_dead_letters),
		(SELECT string_agg(concat_ws(' ', subject, reason, detail::text), ' ') FROM railhead.payment_operator_log),
		(SELECT string_agg(activity, ' ') FROM railhead.outbox_heartbeats))`, nil, &people)
	var logs strings.Builder
	for _, out := range m.outputs {
		logs.WriteString(out.String())
	}
	for what, text := range map[string]string{
		"logs": logs.String(), "spans": m.spans.String(), "what people see": m.came.String(), "the archive's words": kept, "what is kept for people": people,
	} {
		if len(text) < 200 {
			t.Errorf("%s: there is nothing to search: %q", what, text)
		}
		for _, mark := range []string{marker, markedAmount, strings.ReplaceAll(markedAmount, ".", "")} {
			for from, n := 0, 0; n < 10; n++ {
				next := strings.Index(text[from:], mark)
				if next < 0 {
					break
				}
				at := from + next
				t.Errorf("%s have %s: ...%q...", what, mark, text[max(0, at-150):min(len(text), at+60)])
				from = at + len(mark) + 400
			}
		}
	}
	for what, sign := range map[string]string{
		logs.String(): `"msg":"callback recorded"`, m.spans.String(): "railhead.send", m.came.String(): "attempts_total", kept: "AC04",
	} {
		if !strings.Contains(what, sign) {
			t.Errorf("%q is nowhere: the test shows nothing", sign)
		}
	}
}
