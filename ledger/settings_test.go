package ledger_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

var eachSetting = flag.Bool("settings.each", false, "try every value of every setting by itself (minutes)")

// setting is one value of one setting of a login, as SQL writes it.
type setting struct{ name, value string }

func (s setting) String() string { return s.name + " = " + s.value }

// hostileTexts are values of settings that are text; other text is left as it is.
var hostileTexts = map[string][]string{
	"DateStyle":                        {"'German, DMY'", "'SQL, DMY'", "'Postgres, MDY'"},
	"TimeZone":                         {"'Pacific/Kiritimati'", "'America/St_Johns'"},
	"timezone_abbreviations":           {"'Australia'", "'India'"},
	"search_path":                      {"''", "public, pg_catalog", "pg_temp, public"},
	"client_encoding":                  {"'LATIN1'", "'SQL_ASCII'", "'EUC_JP'", "'MULE_INTERNAL'"},
	"default_text_search_config":       {"'pg_catalog.german'"},
	"default_tablespace":               {"'pg_default'"},
	"default_table_access_method":      {"'heap'"},
	"lc_messages":                      {"'C.utf8'", "'POSIX'"},
	"lc_monetary":                      {"'C.utf8'"},
	"lc_numeric":                       {"'C.utf8'"},
	"lc_time":                          {"'C.utf8'"},
	"plpgsql.extra_warnings":           {"'all'"},
	"plpgsql.extra_errors":             {"'all'"},
	"local_preload_libraries":          {"'absent'"},
	"session_preload_libraries":        {"'absent'"},
	"backtrace_functions":              {"'errfinish'"},
	"wal_consistency_checking":         {"'all'"},
	"temp_tablespaces":                 {"''"},
	"application_name":                 {"''", "'railhead'"},
	"restrict_nonsystem_relation_kind": {"'view'", "'foreign-table'"},
}

// mayRefuse are settings under which nothing can be done, or only doubt is left.
// Under all others everything must go as usual.
var mayRefuse = []string{
	"statement_timeout", "transaction_timeout", "idle_session_timeout", // every statement or session is ended
	"idle_in_transaction_session_timeout",
	"default_transaction_read_only", "transaction_read_only", // as a standby
	"local_preload_libraries", "session_preload_libraries", // no session begins
	"client_connection_check_interval", "max_stack_depth", "exit_on_error",
	"post_auth_delay",          // no session begins in time
	"session_replication_role", // the triggers sleep
}

// hostileSettings are the values that a role may set for itself, or a superuser for
// a role, a list for each setting: what is on is off, every word of a list, the least
// and the most.
func hostileSettings(t *testing.T, conn *pgx.Conn) [][]setting {
	t.Helper()
	mustExec(t, conn, `DO $$ BEGIN END $$`) // loads plpgsql, which has settings
	rows, err := conn.Query(t.Context(), `
		SELECT name, vartype, reset_val, coalesce(min_val, ''), coalesce(max_val, ''), coalesce(enumvals, '{}')
		FROM pg_settings WHERE context IN ('user', 'superuser', 'backend', 'superuser-backend')
		ORDER BY name COLLATE "C"`)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]setting
	var name, kind, reset, least, most string
	var words []string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind, &reset, &least, &most, &words}, func() error {
		var values []string
		switch kind {
		case "bool":
			values = []string{map[string]string{"on": "off", "off": "on"}[reset]}
		case "enum":
			for _, word := range words {
				values = append(values, "'"+word+"'")
			}
		case "integer":
			values = []string{least, most}
			if n, err := strconv.ParseInt(least, 10, 64); err == nil {
				values = append(values, strconv.FormatInt(n+1, 10)) // often 0 means none
			}
		case "real":
			values = []string{"'" + least + "'", "'" + most + "'"}
		default:
			values = hostileTexts[name]
		}
		var others []setting
		for _, value := range values {
			if value != reset && value != "'"+reset+"'" {
				others = append(others, setting{name, value})
			}
		}
		all = append(all, others)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestHostileSettings takes payments through a life with every value of every
// setting on the logins of ingest and relayer: enqueue by Go, by SQL and in a batch,
// claim, record, callback. What comes out is exactly what comes out without, or a
// step is refused and has written nothing.
//
// Settings under which all should go as usual are tried ten at a time, and one by one
// where something differs; -settings.each tries all by themselves.
func TestHostileSettings(t *testing.T) {
	t.Parallel()
	h := &hostile{desk: newDesk(t), refused: map[string]string{}}
	h.do(`ALTER DATABASE ` + h.Name + ` SET jit = off`) // which the dearest plans call for, and which takes seconds
	h.want = h.life(h.t)
	if h.want.err != nil {
		t.Fatalf("without any setting: %s: %v", h.want.step, h.want.err)
	}
	all := hostileSettings(t, h.Conn(t, ""))
	tried := 0
	for round := 0; ; round++ { // the first value of each setting, the second of each, ...
		var group []setting
		before := tried
		for _, values := range all {
			if round >= len(values) {
				continue
			}
			tried++
			if s := values[round]; *eachSetting || slices.Contains(mayRefuse, s.name) {
				h.try([]setting{s})
			} else if group = append(group, s); len(group) == 10 {
				h.try(group)
				group = nil
			}
		}
		h.try(group)
		if tried == before {
			break
		}
	}
	if tried < 300 {
		t.Errorf("%d values: the test asks for the wrong settings", tried)
	}
	for _, name := range slices.Sorted(maps.Keys(h.refused)) {
		t.Logf("refused with %s: %s", name, h.refused[name])
	}
	h.gapless()
}

// hostile is a cell whose logins are set to something.
type hostile struct {
	*desk
	want    lived
	refused map[string]string
}

// lived is what came of a life: the rows, or the step that was refused.
type lived struct {
	rows, step string
	err        error
	wrote      bool // although it was refused
}

// try lives with settings. Where several differ from the usual, each is tried alone.
func (h *hostile) try(settings []setting) {
	h.t.Helper()
	set := 0
	for _, s := range settings {
		for _, login := range []string{celltest.Ingest, celltest.Relayer} {
			if _, err := h.super.Exec(h.t.Context(), `ALTER ROLE `+login+` IN DATABASE `+h.Name+` SET "`+s.name+`" = `+s.value); err == nil {
				set++
			} else if ledger.SQLState(err) == "" {
				h.t.Fatal(err)
			}
		}
	}
	if set == 0 {
		return // the server takes none of them for a role
	}
	got := h.life(h.t)
	for _, login := range []string{celltest.Ingest, celltest.Relayer} {
		h.do(`ALTER ROLE ` + login + ` IN DATABASE ` + h.Name + ` RESET ALL`)
	}
	switch {
	case got.err == nil && got.rows == h.want.rows:
	case len(settings) > 1:
		for _, s := range settings {
			h.try([]setting{s})
		}
	case got.wrote:
		h.t.Errorf("%s: %s was refused and has written: %v", settings[0], got.step, got.err)
	case got.err == nil:
		h.t.Errorf("%s: got\n%s\nwant\n%s", settings[0], got.rows, h.want.rows)
	case !slices.Contains(mayRefuse, settings[0].name):
		h.t.Errorf("%s: %s: %v", settings[0], got.step, got.err)
	default:
		h.refused[settings[0].String()] = got.step + ": " + got.err.Error()
	}
}

// life enqueues, claims, records and settles as the logins, under a name of its own.
func (h *hostile) life(t *testing.T) lived {
	h.n++
	l := &life{hostile: h, prefix: fmt.Sprintf("life-%d", h.n)}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"opening", l.open}, {"enqueue of what must be refused", l.enqueueBad}, {"enqueue", l.enqueueGo},
		{"enqueue by SQL", l.enqueueSQL}, {"batch", l.enqueueBatch}, {"claim", l.claim}, {"record", l.record}, {"callback", l.callback},
	} {
		before := l.written()
		if err := step.do(ctx); err != nil {
			l.close()
			wrote := l.written() != before && !errors.Is(err, outbox.ErrCommitUnknown) || errors.Is(err, errWrong)
			h.do(`DELETE FROM railhead.payment_outbox_pending`)
			return lived{step: step.what, err: err, wrote: wrote}
		}
	}
	l.close()
	return lived{rows: l.written()}
}

// errWrong is a step that did what it must not do.
var errWrong = errors.New("wrong")

type life struct {
	*hostile
	prefix string
	ingest *ingest.Ingest
	exec   *executor.Executor
	caller *pgx.Conn
	claims []payment.Claim
}

func (l *life) open(ctx context.Context) (err error) {
	config := func(login string) ledger.Config {
		return ledger.Config{URL: l.URL(login), Cell: l.Schema, Name: "hostile", MaxConns: 1}
	}
	if l.ingest, err = ingest.Open(ctx, config(celltest.Ingest)); err != nil {
		return err
	}
	if l.exec, err = executor.Open(ctx, config(celltest.Relayer)); err != nil {
		return err
	}
	if _, err = l.exec.CheckServer(ctx); err != nil && !errors.Is(err, outbox.ErrUnsafeServer) {
		return err
	}
	l.caller, err = pgx.Connect(ctx, l.URL(celltest.Ingest))
	return err
}

func (l *life) close() {
	if l.ingest != nil {
		l.ingest.Close()
	}
	if l.exec != nil {
		l.exec.Close()
	}
	if l.caller != nil {
		_ = l.caller.Close(context.WithoutCancel(l.t.Context()))
	}
}

// written is all that the database holds of this life, but for what differs each time.
func (l *life) written() string {
	return strings.ReplaceAll(l.text(`
		SELECT concat_ws(E'\n',
		  (SELECT string_agg(concat_ws(' ', k.instruction_id, k.participant_id, k.idempotency_key, k.sequence_id, k.enqueued_by,
		     k.fingerprint = sha256(convert_to(concat_ws(chr(31), k.participant_id, 'bank', a.payload::text), 'UTF8')),
		     a.payload, a.headers, a.priority, a.expires_at AT TIME ZONE 'UTC', a.next_attempt_at > '2001-01-01', x.rows, x.reference), E'\n' ORDER BY k.instruction_id)
		   FROM railhead.payment_outbox_keys k
		   LEFT JOIN railhead.v_outbox_attempts a ON a.outbox_id = k.outbox_id AND a.attempt_no = 1
		   LEFT JOIN LATERAL (
		     SELECT string_agg(t.state || coalesce('(' || t.answers_attempt_no || ')', ''), ' '
		     ORDER BY t.attempt_no) AS rows,
		       string_agg(DISTINCT t.rail_reference, ',') AS reference
		     FROM railhead.payment_outbox_attempts t WHERE t.outbox_id = k.outbox_id) x ON true
		   WHERE starts_with(k.instruction_id, $1 || ' ')),
		  (SELECT string_agg(concat_ws(' ', p.instruction_id, p.payload, p.next_action, p.outcome_unknown, p.send_count), E'\n' ORDER BY p.instruction_id)
		   FROM railhead.v_outbox_pending p),
		  (SELECT count(*) || ' in flight' FROM railhead.payment_outbox_claims c
		  WHERE c.worker_id = $1))`, l.prefix), l.prefix, "life")
}

// named is an instruction of this life, whose payload no encoding but UTF-8 can hold.
func (l *life) named(what string) payment.Instruction {
	return payment.Instruction{
		InstructionID: l.prefix + " " + what, ParticipantID: l.prefix, IdempotencyKey: "k" + what, RailType: celltest.Bank,
		Payload:   []byte(`{"amount": "10.50", "currency": "EUR", "name": "Zürich ıİ € 銀行", "note": "a\\b 'c' \u00e9"}`),
		ExpiresAt: time.Date(2099, 2, 1, 3, 4, 5, 678901000, time.UTC),
		NotBefore: time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC),
		Headers:   map[string]string{"traceparent": "00-ü-01"},
	}
}

func (l *life) enqueueBad(ctx context.Context) error {
	for _, payload := range []string{
		`{"amount": "10x50", "currency": "EUR"}`, `{"amount": "92233720368547758.08", "currency": "EUR"}`, `{"amount": "1.00", "currency": "EUR", "a": [{"PIN": 1}]}`,
	} {
		in := l.named("bad")
		in.Payload = []byte(payload)
		_, err := l.ingest.Enqueue(ctx, in)
		if err == nil {
			return fmt.Errorf("%w: %s was taken", errWrong, payload)
		}
		if state := ledger.SQLState(err); state != "RH002" && state != "RH004" {
			return err
		}
		results, err := l.ingest.EnqueueBatch(ctx, []payment.Instruction{in})
		if err != nil {
			return err
		}
		if results[0].Fault == nil {
			return fmt.Errorf("%w: a batch took %s", errWrong, payload)
		}
		_, err = l.caller.Exec(ctx, `SELECT railhead.enqueue_payment_outbox($1, $2, 'bad', 'bank', $3)`, in.InstructionID, l.prefix, payload)
		if err == nil {
			return fmt.Errorf("%w: %s was taken by SQL", errWrong, payload)
		}
		if state := ledger.SQLState(err); state != "RH002" && state != "RH004" {
			return err
		}
	}
	return nil
}

func (l *life) enqueueGo(ctx context.Context) error {
	first, err := l.ingest.Enqueue(ctx, l.named("1 by Go"))
	if err != nil {
		return err
	}
	again, err := l.ingest.Enqueue(ctx, l.named("1 by Go"))
	if err == nil && (!again.Replayed || again.OutboxID != first.OutboxID || !again.CreatedAt.Equal(first.CreatedAt)) {
		return fmt.Errorf("%w: repeated as %+v after %+v", errWrong, again, first)
	}
	return err
}

func (l *life) enqueueSQL(ctx context.Context) error {
	_, err := l.caller.Exec(ctx, `SELECT railhead.enqueue_payment_outbox($1, $2, $3, 'bank', $4, expires_at => $5)`,
		l.prefix+" 2 by SQL", l.prefix, "k2", `{"amount": "0.01", "currency": "EUR"}`, time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		return err
	}
	// Moments with their zone, whatever the session says of dates.
	_, err = l.caller.Exec(ctx, `SELECT railhead.enqueue_payment_outbox_batch(jsonb_build_array(jsonb_build_object('instruction_id', $1::text, 'participant_id', $2::text,
		'idempotency_key', 'k', 'rail_type', 'bank', 'payload', jsonb_build_object('amount', '7', 'currency', 'EUR'), 'not_before', '2001-02-03T00:00:00Z', 'expires_at', '2098-01-01T12:00:00Z')))`,
		l.prefix+" 3 by SQL", l.prefix)
	return err
}

func (l *life) enqueueBatch(ctx context.Context) error {
	results, err := l.ingest.EnqueueBatch(ctx,
		[]payment.Instruction{l.named("4 batch"), l.named("5 batch"), l.named("1 by Go")})
	for n, result := range results {
		if result.Fault != nil || result.Receipt.Replayed != (n == 2) {
			return fmt.Errorf("%w: item %d: %+v %v", errWrong, n, result.Receipt, result.Fault)
		}
	}
	return err
}

func (l *life) claim(ctx context.Context) error {
	claim := request(lane(celltest.Bank, 10, 0))
	claim.WorkerID = l.prefix
	result, err := l.exec.Turn(ctx, outbox.Turn{Claim: claim})
	if err != nil {
		return err
	}
	l.claims = result.Claims
	for _, claim := range l.claims {
		stored := l.text(`SELECT payload || expires_at::text FROM railhead.v_outbox_attempts WHERE outbox_id = $1
			AND attempt_no = 1`, [16]byte(claim.OutboxID))
		if got := string(claim.Payload) + claim.ExpiresAt.UTC().Format("2006-01-02 15:04:05.999999+00"); got != stored {
			return fmt.Errorf("%w: claimed %s, stored %s", errWrong, got, stored)
		}
	}
	if len(l.claims) != 5 {
		return fmt.Errorf("%w: %d claims", errWrong, len(l.claims))
	}
	return nil
}

func (l *life) record(ctx context.Context) error {
	turn := outbox.Turn{Finished: []payment.ID{l.claims[0].ClaimID}}
	for _, claim := range l.claims {
		answer := told(sameKey, claim, payment.ResultAccepted, "ref-ü"+strings.TrimPrefix(claim.InstructionID, l.prefix))
		if strings.Contains(claim.InstructionID, "SQL") {
			answer = told(sameKey, claim, payment.ResultUnknown, "")
		}
		turn.Outcomes = append(turn.Outcomes, answer)
	}
	result, err := l.exec.Turn(ctx, turn)
	if err == nil && len(result.Late) != 0 {
		return fmt.Errorf("%w: %d are late", errWrong, len(result.Late))
	}
	return err
}

func (l *life) callback(ctx context.Context) error {
	for _, claim := range l.claims {
		if !strings.Contains(claim.InstructionID, "SQL") {
			continue
		}
		report := callback(claim.OutboxID, payment.ResultExecuted, "ref-銀行")
		for _, want := range []payment.Verdict{payment.VerdictSettled, payment.VerdictMine} {
			verdict, err := l.exec.RecordLate(ctx, report)
			if err != nil {
				return err
			}
			if verdict != want {
				return fmt.Errorf("%w: verdict %s, want %s", errWrong, verdict, want)
			}
		}
	}
	return nil
}
