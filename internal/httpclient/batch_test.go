package httpclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// ofBatch answers a batch: the text of says, with the instruction of a line that is stored in the place of "stored".
func ofBatch(says ...string) (*http.Response, error) {
	all := strings.Join(says, "\n") + "\n"
	for strings.Contains(all, "stored") {
		id := payment.NewID()
		all = strings.Replace(all, "stored", fmt.Sprintf(`"status": 201, "instruction": {"outbox_id": %q}`, id), 1)
	}
	return answer(http.StatusOK, all)
}

// typed is the type of a problem of a line: it is the API's.
const typed = `"type": "` + outbox.ProblemsAt + "unavailable" + outbox.ProblemsEnd + `", `

const (
	drained = `{"end": true, "status": 503, "lines": 1, "problem": {` + typed + `"title": "no", "commit": "none", "retry_after": 30}}`
	unread  = `{"end": true, "status": 503, "problem": {` + typed + `"title": "later", "commit": "none", "retry_after": 3600}}`
	lineTwo = `{"line": 2, "status": 422, "problem": {` + typed + `"title": "refused", "code": "RH002"}}`
	lineOne = `{"line": 1, "status": 422, "problem": {` + typed + `"title": "refused", "code": "RH002"}}`
	ended   = `{"end": true, "status": 200, "lines": 2}`
	first   = `{"line": 1, stored}`
)

// TestLinesThatWereNotRead: what is behind the lines that the end line counts is not in doubt, and is sent again after
// the time for which the end line asks. What is before them and has no answer is in doubt, and all of it is without an
// end line.
func TestLinesThatWereNotRead(t *testing.T) {
	t.Parallel()
	unknown := outbox.ErrCommitUnknown
	tooLarge := `{"end": true, "status": 413, "problem": {` + typed + `"title": "too large"}}`
	for what, c := range map[string]struct {
		says  [][]string // the last one again and again
		want  error
		waits time.Duration // before the second call
		calls int
	}{
		"one was read":            {[][]string{{first, drained}, {lineOne}}, nil, 30 * time.Second, 2},
		"none was read":           {[][]string{{unread}, {first, lineTwo, ended}}, nil, 2 * time.Minute, 2},
		"one without an answer":   {[][]string{{drained}, {lineOne, lineTwo, ended}}, unknown, 30 * time.Second, 8},
		"no end line":             {[][]string{{first}, {lineOne}}, unknown, 0, 7},
		"in doubt before":         {[][]string{{first}, {unread}}, unknown, 0, 7},
		"never read":              {[][]string{{unread}}, outbox.ErrBusy, 2 * time.Minute, 6},
		"never read, too large":   {[][]string{{tooLarge}}, outbox.ErrBusy, 0, 6},
		"never read, all is well": {[][]string{{`{"end": true, "status": 200}`}}, outbox.ErrBusy, 0, 6},
		"ended in doubt": {[][]string{
			{`{"line": 1, "status": 503, "problem": {` + typed + `"title": "unknown", "commit": "unknown"}}`,
				`{"end": true, "status": 503, "lines": 1, "problem": {` + typed + `"title": "unknown", "commit": "unknown", "retry_after": 1}}`},
			{first, lineTwo, ended}}, nil, time.Second, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, began, waited := 0, time.Now(), time.Duration(0)
			client := over(t, func(request *http.Request) (*http.Response, error) {
				if _, err := io.Copy(io.Discard, request.Body); err != nil {
					return nil, err
				}
				if calls++; calls == 2 {
					waited = time.Since(began).Truncate(time.Second)
				}
				return ofBatch(c.says[min(calls, len(c.says))-1]...)
			})
			results, err := client.EnqueueBatch(t.Context(), []payment.Instruction{
				instruction("i-1", "k-1", `{}`), instruction("i-2", "k-2", `{}`)})
			switch {
			case !errors.Is(err, c.want) || waited != c.waits || calls != c.calls:
				t.Errorf("%s: %d calls, the second after %v: %v", what, calls, waited, err)
			case err == nil && (results[0].Fault != nil || results[1].Fault == nil):
				t.Errorf("%s: %+v", what, results)
			case c.want != nil && c.want != outbox.ErrCommitUnknown && errors.Is(err, outbox.ErrCommitUnknown),
				errors.Is(err, outbox.ErrInvalid):
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// ending is how a batch ends after its first answer.
type ending struct {
	says  []string // again and again; none: the answer is lost
	token error    // from then on
	stops int      // the attempt in which the caller ends the call, or 1: the pause behind it
	want  error    // where no line is stored
}

// batch makes a batch of two lines, whose first answer is begins.
func (e ending) batch(t *testing.T, begins ...string) (results []outbox.ReceiptOrFault, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		asked, calls := 0, 0
		client, newErr := httpclient.NewHTTP(httpclient.Config{
			BaseURL: "http://api.example", ParticipantID: "p1",
			Token: func(context.Context) (string, error) {
				if asked++; asked == 1 {
					return "token", nil
				}
				if asked == e.stops {
					stop()
				}
				return "token", e.token
			},
			Transport: transport(func(request *http.Request) (*http.Response, error) {
				if _, err := io.Copy(io.Discard, request.Body); err != nil {
					return nil, err
				}
				if calls++; calls == e.stops {
					time.AfterFunc(time.Second, stop)
				}
				switch {
				case calls == 1:
					return ofBatch(begins...)
				case e.says == nil:
					return nil, errors.New("the answer was lost")
				case e.says[0] == "401":
					return answer(http.StatusUnauthorized, ofAPI("unauthorized", `"title": "expired"`))
				default:
					return ofBatch(e.says...)
				}
			})})
		if newErr != nil {
			t.Fatal(newErr)
		}
		results, err = client.EnqueueBatch(ctx, []payment.Instruction{
			instruction("i-1", "k-1", `{}`), instruction("i-2", "k-2", `{}`)})
	})
	return results, err
}

// TestBatchThatIsStoredInPart: once a line is stored no error of the call says that nothing was, whatever has ended it.
// A line that was refused is no such line.
func TestBatchThatIsStoredInPart(t *testing.T) {
	t.Parallel()
	sealed := errors.New("the vault is sealed")
	full := `{"line": 1, "status": 429, "problem": {` + typed + `"title": "full"}}`
	for what, c := range map[string]ending{
		"never read":         {says: []string{unread}, want: outbox.ErrBusy},
		"under a quota":      {says: []string{full, `{"end": true, "status": 200, "lines": 1}`}, want: outbox.ErrBusy},
		"expired":            {says: []string{"401"}, want: outbox.ErrToken},
		"no token":           {token: sealed, want: sealed},
		"ended in a pause":   {stops: 1, want: outbox.ErrBusy},
		"ended with a token": {token: sealed, stops: 2, want: sealed},
		"lost":               {want: outbox.ErrCommitUnknown},
	} {
		for _, begins := range [][]string{{first, drained}, {lineOne, drained}, {unread}} {
			results, err := c.batch(t, begins...)
			want := c.want
			if begins[0] == first {
				want = outbox.ErrCommitUnknown
			}
			for _, each := range []error{outbox.ErrCommitUnknown, outbox.ErrBusy, outbox.ErrToken, sealed} {
				if results != nil || errors.Is(err, each) != (each == want) {
					t.Errorf("%s, after %q: %v, %v", what, begins, results, err)
				}
			}
			if (c.stops == 1) != errors.Is(err, context.Canceled) {
				t.Errorf("%s, after %q: ended by %v", what, begins, err)
			}
		}
	}
}

// TestBatchThatIsReadInParts: attempts are counted only in a row that end no line.
func TestBatchThatIsReadInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		client := over(t, func(request *http.Request) (*http.Response, error) {
			text, err := io.ReadAll(request.Body)
			if err != nil {
				return nil, err
			}
			if calls++; calls%2 == 0 {
				return ofBatch(unread)
			}
			return ofBatch(first, fmt.Sprintf(`{"end": true, "status": %d, "lines": 1}`,
				200+313*min(1, bytes.Count(text, []byte("\n"))-1)))
		})
		all := make([]payment.Instruction, 20)
		for n := range all {
			all[n] = instruction(fmt.Sprint("i-", n), fmt.Sprint("k-", n), `{}`)
		}
		results, err := client.EnqueueBatch(t.Context(), all)
		if err != nil || len(results) != 20 || calls != 39 {
			t.Errorf("%d results after %d calls: %v", len(results), calls, err)
		}
	})
}

// TestWithoutAToken: where there is no token nothing is sent, and the error says so. It does not end the doubt of an
// earlier attempt.
func TestWithoutAToken(t *testing.T) {
	t.Parallel()
	sealed := errors.New("the vault is sealed")
	for what, c := range map[string]struct {
		tokens int // so many calls have one
		want   error
	}{
		"never":              {0, sealed},
		"after a lost call":  {1, outbox.ErrCommitUnknown},
		"after its attempts": {6, outbox.ErrCommitUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, way := range []string{"one", "batch"} {
				asked, sent := 0, 0
				client, err := httpclient.NewHTTP(httpclient.Config{
					BaseURL: "http://api.example", ParticipantID: "p1",
					Token: func(context.Context) (string, error) {
						if asked++; asked > c.tokens {
							return "", sealed
						}
						return "token", nil
					},
					Transport: transport(func(*http.Request) (*http.Response, error) {
						sent++
						return nil, errors.New("the answer was lost")
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				in := instruction("i", "k", `{}`)
				if way == "one" {
					_, err = client.Enqueue(t.Context(), in)
				} else {
					_, err = client.EnqueueBatch(t.Context(), []payment.Instruction{in})
				}
				if !errors.Is(err, c.want) || errors.Is(err, outbox.ErrCommitUnknown) != (c.tokens > 0) || sent != c.tokens ||
					asked != 6 || c.tokens == 0 && !strings.Contains(err.Error(), "nothing was sent") {
					t.Errorf("%s, %s: asked %d times, sent %d: %v", what, way, asked, sent, err)
				}
			}
			if c.tokens > 0 {
				return
			}
			client, err := httpclient.NewHTTP(httpclient.Config{BaseURL: "http://api.example", ParticipantID: "p1",
				Token: func(context.Context) (string, error) { return "", sealed }})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Status(t.Context(), payment.Key{InstructionID: "i"}); !errors.Is(err, sealed) {
				t.Errorf("a status: %v", err)
			}
		})
	}
}

// TestHardBatches: lines that are too long, and more of them than a cell takes at once, are each answered, and the
// others are stored in their order.
func TestHardBatches(t *testing.T) {
	t.Parallel()
	cell, both := clients(t, nil)
	cell.Exec("UPDATE railhead.payment_outbox_settings SET batch_items_max = 100")
	var all []payment.Instruction
	for n := range 300 {
		all = append(all, instruction(fmt.Sprint("i-", n), fmt.Sprint("k-", n), valid))
	}
	all[150].Payload = []byte(`{"amount": "1.00", "currency": "EUR", "text": "` + strings.Repeat("x", 3<<20) + `"}`)
	results, err := both["http"].EnqueueBatch(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for n, one := range results {
		if (one.Fault != nil) != (n == 150) || one.Fault == nil && one.Receipt.SequenceID != last+1 {
			t.Errorf("line %d: %+v", n+1, one)
		}
		last = max(last, one.Receipt.SequenceID)
	}
}
