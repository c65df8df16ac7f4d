package httpclient_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// asked is the question of a page that is about the payment of ways.
const asked = `{"participant_id": "p1", "instruction_id": "i", "idempotency_key": "k"}`

// pageOf is a page of the API that answers this question.
func pageOf(items string) string { return `{"query": ` + asked + `, "items": [` + items + `]}` }

// TestPageOfAnotherQuestion: an empty page says that there is no such instruction only if it says that it answers this
// question. Any gateway may answer one, and a cache that of another question.
func TestPageOfAnotherQuestion(t *testing.T) {
	t.Parallel()
	one := fmt.Sprintf(`{"outbox_id": %q, "state": "DISPATCHED"}`, payment.NewID())
	of := func(query, items string) string { return `{"query": ` + query + `, "items": [` + items + `]}` }
	others := []string{`{}`, `null`, `[]`, `"i"`,
		`{"participant_id": "p2", "instruction_id": "i", "idempotency_key": "k"}`,
		`{"participant_id": "p1", "instruction_id": "I", "idempotency_key": "k"}`,
		`{"participant_id": "p1", "instruction_id": "i", "idempotency_key": "other"}`,
		`{"participant_id": "p1", "instruction_id": "i"}`,
		strings.Replace(asked, "}", `, "after": "MQ"}`, 1), strings.Replace(asked, "}", `, "state": "FAILED"}`, 1)}
	wants := map[string]error{
		of(asked, ""):                        outbox.ErrNotFound,
		of(asked, one):                       nil,
		`{"items": [` + one + `]}`:           nil, // of an older API, and about this payment
		`{"items": []}`:                      errAny,
		`{"items": [], "error": "no hosts"}`: errAny,
	}
	for _, other := range others {
		wants[of(other, "")] = errAny
		if other != "null" { // as if it were not there
			wants[of(other, one)] = errAny
		}
	}
	for text, want := range wants {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client := over(t, func(*http.Request) (*http.Response, error) {
				calls++
				return answer(http.StatusOK, text)
			})
			status, err := client.Status(t.Context(), payment.Key{InstructionID: "i", IdempotencyKey: "k"})
			switch {
			case want == errAny && (err == nil || errors.Is(err, outbox.ErrNotFound) || calls != 6):
				t.Errorf("%s: %+v, %v, after %d calls, want an error that does not say that there is no payment", text,
					status, err, calls)
			case want != errAny && (!errors.Is(err, want) || calls != 1):
				t.Errorf("%s: %+v, %v, after %d calls, want %v", text, status, err, calls, want)
			}
		})
	}
}

var errAny = errors.New("an error that says nothing of the payment")

// TestEmptyPageOfAnOlderAPI: the error says why it is not known whether there is a payment.
func TestEmptyPageOfAnOlderAPI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := over(t, func(*http.Request) (*http.Response, error) { return answer(http.StatusOK, `{"items": []}`) })
		_, err := client.Status(t.Context(), payment.Key{InstructionID: "i", IdempotencyKey: "k"})
		if err == nil || !strings.Contains(err.Error(), "does not say what it answers") {
			t.Errorf("%v, want one that says what the page lacks", err)
		}
	})
}

// TestOlderThanTheCall: an answer that was made before its call is that of a cache, and says nothing of what is so now.
func TestOlderThanTheCall(t *testing.T) {
	t.Parallel()
	one := fmt.Sprintf(`{"outbox_id": %q, "state": "DISPATCHED"}`, payment.NewID())
	for _, c := range []struct {
		age   string
		takes time.Duration
		taken bool
	}{
		{"", 0, true}, {"0", 0, true}, {"none", 0, true}, {"-5", 0, true}, {"1", 200 * time.Millisecond, true},
		{"10", 10 * time.Second, true}, {"1", 0, false}, {"11", 10 * time.Second, false}, {"3600", time.Second, false},
		{" 3600, 0", 0, false}, {"99999999999999999999", 0, false},
	} {
		for what, text := range map[string]string{
			"the payment": one, "none": pageOf(""), "refused": ofAPI("invalid-instruction", `"title": "no", "code": "RH002"`),
		} {
			synctest.Test(t, func(t *testing.T) {
				client := over(t, func(request *http.Request) (*http.Response, error) {
					time.Sleep(c.takes)
					said, status := text, http.StatusOK
					switch {
					case what == "refused":
						status = http.StatusUnprocessableEntity
					case what == "the payment" && strings.HasSuffix(request.URL.Path, "/batch"):
						said = `{"line": 1, "status": 201, "instruction": ` + text + "}\n" + ended
					case what == "the payment" && request.URL.Path == "/v1/instructions" && request.Method == http.MethodGet:
						said = pageOf(text)
					}
					response, err := answer(status, said)
					response.Header.Set("Age", c.age)
					return response, err
				})
				for way, err := range ways(client) {
					writes := way == "enqueue" || way == "batch"
					if writes && what == "none" {
						continue
					}
					definite := err == nil || errors.Is(err, outbox.ErrNotFound) || errors.Is(err, outbox.ErrInvalid)
					if definite != c.taken || errors.Is(err, outbox.ErrCommitUnknown) != (writes && !c.taken) {
						t.Errorf("age %q after %v, %s, %s: %v, want it taken: %t", c.age, c.takes, what, way, err, c.taken)
					}
				}
			})
		}
	}
}

// TestLinesOfAGateway: a line of a batch is stored if the answer has its instruction, and is refused by a problem of
// the API alone. What anything else says of it, or of the lines that were read, leaves it in doubt.
func TestLinesOfAGateway(t *testing.T) {
	t.Parallel()
	refusal := func(of string) string { return fmt.Sprintf(`{"line": 1, "status": 409, "problem": %s}`, of) }
	id := fmt.Sprintf(`{"outbox_id": %q}`, payment.NewID())
	for what, lines := range map[string][]string{
		"stored, without it":         {`{"line": 1, "status": 201}`},
		"without a status":           {`{"line": 1}`},
		"without a status, with it":  {`{"line": 1, "instruction": ` + id + `}`},
		"refused, with it":           {`{"line": 1, "status": 409, "instruction": ` + id + `}`},
		"refused without a problem":  {`{"line": 1, "status": 422}`},
		"a problem without a type":   {refusal(`{"title": "x"}`)},
		"a problem of a gateway":     {refusal(`{"type": "about:blank", "title": "x", "code": "RH002"}`)},
		"busy, without a type":       {`{"line": 1, "status": 503, "problem": {"title": "x", "commit": "none"}}`},
		"a problem, and stored":      {`{"line": 1, "status": 201, "problem": ` + ofAPI("key-reused", `"title": "x"`) + `}`},
		"an end without a status":    {`{"end": true}`},
		"an end by a gateway":        {`{"end": true, "status": 503, "problem": {"title": "x", "commit": "none"}}`},
		"an end without a problem":   {`{"end": true, "status": 503}`},
		"an end by a gateway's code": {`{"end": true, "status": 413, "problem": {"type": "about:blank", "title": "x"}}`},
	} {
		if !strings.Contains(lines[0], "end") {
			lines = append(lines, `{"end": true, "status": 200, "lines": 1}`)
		}
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client := over(t, func(*http.Request) (*http.Response, error) {
				calls++
				return answer(http.StatusOK, strings.Join(lines, "\n"))
			})
			results, err := client.EnqueueBatch(t.Context(), []payment.Instruction{instruction("i", "k", `{}`)})
			if results != nil || !errors.Is(err, outbox.ErrCommitUnknown) || calls != 6 {
				t.Errorf("%s: %+v, %v, after %d calls, want %v after 6", what, results, err, calls, outbox.ErrCommitUnknown)
			}
		})
	}
}
