package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Both ways are one interface.
var (
	_ httpclient.Client = (*httpclient.HTTP)(nil)
	_ httpclient.Client = (*ingest.Ingest)(nil)
)

// losing makes each call, and loses two of three answers.
type losing struct{ calls atomic.Int64 }

func (l *losing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	switch l.calls.Add(1) % 3 {
	case 1:
		response.Body.Close()
		return nil, errors.New("the answer was lost")
	case 2:
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(text[:len(text)/2]))
		return response, err
	default:
		return response, nil
	}
}

// clients are the two ways into one cell.
func clients(t *testing.T, transport http.RoundTripper) (*celltest.Cell, map[string]httpclient.Client) {
	t.Helper()
	cell := celltest.New(t)
	ingest, err := ingest.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ingest.Close)
	door, err := door.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.API), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(door.Close)
	made, err := api.New(api.Config{}, door, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(made.Handler())
	server.Config.MaxHeaderBytes = 16 << 10 // as in made.Serve
	server.Start()
	t.Cleanup(server.Close)
	token, _, err := operator.CreateToken(t.Context(), cell.Conn(t, ""), cell.Schema, operator.NewToken{
		Name: "a test", Participants: []string{"p1"}, Verbs: []string{outbox.VerbEnqueue, outbox.VerbRead},
		ExpiresAt: time.Now().Add(time.Hour), Reason: "a test",
	})
	if err != nil {
		t.Fatal(err)
	}
	over, err := httpclient.NewHTTP(httpclient.Config{
		BaseURL: server.URL, Token: func(context.Context) (string, error) { return token, nil }, ParticipantID: "p1",
		Transport: transport, Backoff: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return cell, map[string]httpclient.Client{"sql": ingest, "http": over}
}

func instruction(id, key, payload string) payment.Instruction {
	return payment.Instruction{InstructionID: id, ParticipantID: "p1", IdempotencyKey: key, RailType: "bank",
		Payload: []byte(payload)}
}

// ofAPI is a problem of the API, whose other members are rest.
func ofAPI(name, rest string) string {
	return fmt.Sprintf(`{"type": %q, %s}`, outbox.ProblemsAt+name+outbox.ProblemsEnd, rest)
}

const valid = `{"amount": "10.50", "currency": "EUR"}`

// TestBothWays tests that both clients return the same answers and the same errors.
func TestBothWays(t *testing.T) {
	t.Parallel()
	_, both := clients(t, nil)
	for way, c := range both {
		id, key := way+"-1", way+"-1-key"
		first, err := c.Enqueue(t.Context(), instruction(id, key, valid))
		if err != nil || first.Replayed || first.State != "PENDING" {
			t.Fatalf("%s: %+v, %v", way, first, err)
		}
		again, err := c.Enqueue(t.Context(), instruction(id, key, valid))
		if err != nil || !again.Replayed || again.OutboxID != first.OutboxID || !again.CreatedAt.Equal(first.CreatedAt) {
			t.Errorf("%s: again %+v, %v", way, again, err)
		}
		for what, c := range map[string]struct {
			in    payment.Instruction
			want  error
			state string
			field string
		}{
			"other content":  {instruction(id, key, `{"amount": "9", "currency": "EUR"}`), outbox.ErrConflict, outbox.StateConflict, "idempotency_key"},
			"a second key":   {instruction(id, key+"-2", valid), outbox.ErrInvalid, outbox.StateSecondKey, "idempotency_key"},
			"decimals":       {instruction(id+"-2", key+"-2", `{"amount": "9.999", "currency": "EUR"}`), outbox.ErrInvalid, outbox.StateInvalid, "payload.amount"},
			"a name twice":   {instruction(id+"-2", key+"-2", `{"amount": "9", "amount": "8", "currency": "EUR"}`), outbox.ErrInvalid, outbox.StateInvalid, ""},
			"a space":        {instruction(id+"-2", " "+key+"-2", valid), outbox.ErrInvalid, outbox.StateInvalid, "idempotency_key"},
			"a tab":          {instruction(id+"-2", key+"-2\t", valid), outbox.ErrInvalid, outbox.StateInvalid, "idempotency_key"},
			"too long":       {instruction(id+"-2", strings.Repeat("k", 40_000), valid), outbox.ErrInvalid, outbox.StateInvalid, "idempotency_key"},
			"a line":         {instruction(id+"-2", key+"\n2", valid), outbox.ErrInvalid, outbox.StateInvalid, "idempotency_key"},
			"no JSON at all": {instruction(id+"-2", key+"-2", `{`), outbox.ErrInvalid, outbox.StateInvalid, ""},
		} {
			_, err := both[way].Enqueue(t.Context(), c.in)
			fault, ok := errors.AsType[*outbox.Fault](err)
			if !ok || !errors.Is(err, c.want) || fault.SQLState != c.state || c.field != "" && fault.Field != c.field {
				t.Errorf("%s: %s: %v (%+v)", way, what, err, fault)
			}
		}
		status, err := c.Status(t.Context(), payment.Key{InstructionID: id, IdempotencyKey: key})
		if err != nil || status.OutboxID != first.OutboxID || status.Certainty != "NOT_SENT" {
			t.Errorf("%s: status %+v, %v", way, status, err)
		}
		for n, key := range []string{`"` + way + `"`, `"` + way, way + `"`, `""` + way + `""`, way + ` "`, `"` + way[:1] + `"`} {
			in := instruction(fmt.Sprint(way, "-quoted-", n), key, valid)
			in.Headers = map[string]string{"traceparent": []string{"no\ntrace",
				strings.Repeat("x", map[string]int{"http": 40_000, "sql": 2_000}[way])}[n%2]}
			made, err := c.Enqueue(t.Context(), in)
			found, statusErr := c.Status(t.Context(), payment.Key{InstructionID: in.InstructionID, IdempotencyKey: key})
			if err != nil || statusErr != nil || found.OutboxID != made.OutboxID {
				t.Errorf("%s: key %s: %v, %v", way, key, err, statusErr)
			}
		}
		if _, err := c.Status(t.Context(), payment.Key{InstructionID: "none", IdempotencyKey: "none"}); !errors.Is(err,
			outbox.ErrNotFound) {
			t.Errorf("%s: status of none: %v", way, err)
		}
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		last, err := c.Await(short, payment.Key{InstructionID: id, IdempotencyKey: key})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || last.OutboxID != first.OutboxID {
			t.Errorf("%s: awaited %+v, %v", way, last, err)
		}
		once := instruction(id+"-once", key+"-once", valid)
		once.SendOnce = true
		batched := once
		batched.InstructionID, batched.IdempotencyKey = id+"-batched", key+"-batched"
		_, err = c.Enqueue(t.Context(), once)
		if _, errBatch := c.EnqueueBatch(t.Context(), []payment.Instruction{batched}); err != nil || errBatch != nil {
			t.Errorf("%s: once: %v, %v", way, err, errBatch)
		}
		for _, in := range []payment.Instruction{once, batched} {
			in.SendOnce = false
			if again, err := c.Enqueue(t.Context(), in); err != nil || !slices.Equal(again.Differs, []string{"send_once"}) {
				t.Errorf("%s: %s as one that may be sent again: %+v, %v", way, in.InstructionID, again, err)
			}
		}
		results, err := c.EnqueueBatch(t.Context(), []payment.Instruction{
			instruction(id+"-b1", key+"-b1", valid), instruction(id+"-b2", key+"-b2", `{"amount": "0", "currency": "EUR"}`),
			instruction(id, key, valid),
		})
		if err != nil || results[0].Fault != nil || results[1].Fault == nil || results[1].Fault.Rule != "ZERO" ||
			!results[2].Receipt.Replayed {
			t.Errorf("%s: batch %+v, %v", way, results, err)
		}
	}
}

// TestAnswersThatAreLost tests that a call is repeated until it is answered, and makes one
// instruction.
func TestAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	cell, both := clients(t, &losing{})
	over := both["http"]
	for n := range 10 {
		receipt, err := over.Enqueue(t.Context(), instruction(fmt.Sprintf("i-%d", n), fmt.Sprintf("k-%d", n), valid))
		if err != nil || receipt.SequenceID != int64(n+1) {
			t.Errorf("%d: %+v, %v", n, receipt, err)
		}
	}
	var all []payment.Instruction
	for n := range 600 {
		all = append(all, instruction(fmt.Sprintf("b-%d", n), fmt.Sprintf("bk-%d", n), valid))
	}
	results, err := over.EnqueueBatch(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for n, result := range results {
		if result.Fault != nil || result.Receipt.OutboxID == (payment.ID{}) {
			t.Errorf("%d: %+v", n, result)
		}
	}
	if there := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`); there != 610 {
		t.Errorf("%d instructions are there, want 610", there)
	}
}

// TestNoAnswer tests that, without any answer, the error reports an unknown commit.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	over, err := httpclient.NewHTTP(httpclient.Config{
		BaseURL: "http://api.example", Token: func(context.Context) (string, error) { return "t", nil }, Attempts: 2,
		Backoff:   time.Millisecond,
		Transport: transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("the answer was lost") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := over.Enqueue(t.Context(), instruction("i", "k", valid)); !errors.Is(err, outbox.ErrCommitUnknown) {
		t.Errorf("%v", err)
	}
	for _, bad := range []httpclient.Config{{}, {BaseURL: "ftp://x",
		Token: func(context.Context) (string, error) { return "", nil }}, {BaseURL: "https://x"}} {
		if _, err := httpclient.NewHTTP(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestAnEarlierAttemptMayHaveStored tests that no later refusal ends the doubt of a lost answer:
// neither "nothing was stored", which is about its own call alone, nor a token that has expired
// meanwhile.
func TestAnEarlierAttemptMayHaveStored(t *testing.T) {
	t.Parallel()
	none := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, ofAPI("unavailable", `"title": "away", "status": 503, "commit": "none"`))
	}
	expired := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, ofAPI("unauthorized", `"title": "no token", "status": 401`))
	}
	unknown := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, ofAPI("commit-unknown", `"title": "unknown", "status": 503, "commit": "unknown"`))
	}
	cut := func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"outbox_id": "`)
	}
	line := func(status int, commit string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			fmt.Fprintf(w, `{"line": 1, "status": %d, "problem": {`+typed+`"title": "refused", "status": %d, "commit": %q}}`+"\n", status,
				status, commit)
		}
	}
	nothing := func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }
	for name, test := range map[string]struct {
		batch bool
		says  []func(http.ResponseWriter) // the last one again and again
		want  error
	}{
		"away from the beginning":                {false, []func(http.ResponseWriter){none}, outbox.ErrBusy},
		"no token from the beginning":            {false, []func(http.ResponseWriter){expired}, outbox.ErrToken},
		"away, then no token":                    {false, []func(http.ResponseWriter){none, expired}, outbox.ErrToken},
		"cut, then away":                         {false, []func(http.ResponseWriter){cut, none}, outbox.ErrCommitUnknown},
		"unknown, then away":                     {false, []func(http.ResponseWriter){none, unknown, none}, outbox.ErrCommitUnknown},
		"unknown, then no token":                 {false, []func(http.ResponseWriter){unknown, expired}, outbox.ErrCommitUnknown},
		"batch: away from the beginning":         {true, []func(http.ResponseWriter){none}, outbox.ErrBusy},
		"batch: a line not stored":               {true, []func(http.ResponseWriter){line(503, "none")}, outbox.ErrBusy},
		"batch: no line, then away":              {true, []func(http.ResponseWriter){nothing, none}, outbox.ErrCommitUnknown},
		"batch: no line, then no token":          {true, []func(http.ResponseWriter){nothing, expired}, outbox.ErrCommitUnknown},
		"batch: unknown, then not stored":        {true, []func(http.ResponseWriter){line(503, "unknown"), line(503, "none")}, outbox.ErrCommitUnknown},
		"batch: unknown, then the line is wrong": {true, []func(http.ResponseWriter){unknown, line(422, "")}, outbox.ErrCommitUnknown},
		"batch: the line is wrong":               {true, []func(http.ResponseWriter){line(422, "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) //nolint:errcheck // a test
				test.says[min(int(calls.Add(1)), len(test.says))-1](w)
			}))
			defer server.Close()
			h, err := httpclient.NewHTTP(httpclient.Config{
				BaseURL: server.URL, Token: func(context.Context) (string, error) { return "t", nil }, ParticipantID: "p1",
				Attempts: 4, Backoff: time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			in := payment.Instruction{InstructionID: "i", ParticipantID: "p1", IdempotencyKey: "k", RailType: "bank",
				Payload: []byte(`{}`)}
			if test.batch {
				_, err = h.EnqueueBatch(t.Context(), []payment.Instruction{in})
			} else {
				_, err = h.Enqueue(t.Context(), in)
			}
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			for _, definite := range []error{outbox.ErrBusy, outbox.ErrToken, outbox.ErrInvalid} {
				if test.want == outbox.ErrCommitUnknown && errors.Is(err, definite) {
					t.Errorf("says for certain: %v", err)
				}
			}
		})
	}
}
