package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// definite are the errors that say what has become of a call.
var definite = []error{outbox.ErrBusy, outbox.ErrToken, outbox.ErrForbidden, outbox.ErrInvalid, outbox.ErrConflict,
	outbox.ErrNotFound, outbox.ErrEnqueueClosed, outbox.ErrSeveralPayments}

// ways are the calls of a client.
func ways(client *httpclient.HTTP) map[string]error {
	in, key := instruction("i", "k", `{}`), payment.Key{InstructionID: "i", IdempotencyKey: "k"}
	_, one := client.Enqueue(context.Background(), in)
	_, batch := client.EnqueueBatch(context.Background(), []payment.Instruction{in})
	_, status := client.Status(context.Background(), key)
	_, await := client.Await(context.Background(), key)
	return map[string]error{"enqueue": one, "batch": batch, "status": status, "await": await}
}

// TestAnswersOfAGateway: what is not the API's answer refuses nothing, and is no word about any payment: a gateway may
// have forwarded the call. The call is repeated, and its end is in doubt.
func TestAnswersOfAGateway(t *testing.T) {
	t.Parallel()
	texts := []string{"", "default backend - 404", "<html><title>no</title></html>", "null", "[]", `"no"`, `{"items": null}`,
		`{"status": "ok"}`, `{"title": "no", "commit": "none"}`, `{"type": "about:blank", "title": "no", "commit": "none"}`,
		`{"code": "RH002", "title": "it takes too long", "commit": "none"}`, `{"outbox_id": "none", "items": [{}]}`,
		`{"type": "https://gateway.example/docs/problems/not-found.md", "title": "no"}`}
	for _, status := range []int{200, 201, 202, 203, 204, 206, 300, 302, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415,
		422, 425, 429, 431, 499, 500, 501, 502, 503, 504, 520} {
		for _, text := range texts {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				client := over(t, func(*http.Request) (*http.Response, error) {
					calls++
					return answer(status, text)
				})
				for way, err := range ways(client) {
					writes := way == "enqueue" || way == "batch"
					if err == nil || errors.Is(err, outbox.ErrCommitUnknown) != writes {
						t.Errorf("%d %q, %s: %v", status, text, way, err)
					}
					for _, each := range definite {
						if errors.Is(err, each) {
							t.Errorf("%d %q, %s says for certain: %v", status, text, way, err)
						}
					}
				}
				if calls != 4*6 {
					t.Errorf("%d %q: %d calls, want 24", status, text, calls)
				}
			})
		}
	}
}

// TestNoSuchOperation: an API that lacks the operation has done nothing, and says nothing of a payment. An older one
// calls it not-found.
func TestNoSuchOperation(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"no-such-operation", "not-found"} {
		calls := 0
		client := over(t, func(*http.Request) (*http.Response, error) {
			calls++
			return answer(http.StatusNotFound, ofAPI(name, `"title": "no"`))
		})
		for way, err := range ways(client) {
			if err == nil || errors.Is(err, outbox.ErrCommitUnknown) || !strings.Contains(err.Error(), "no such operation") {
				t.Errorf("%s, %s: %v", name, way, err)
			}
			for _, each := range definite {
				if errors.Is(err, each) {
					t.Errorf("%s, %s says for certain: %v", name, way, err)
				}
			}
		}
		if calls != 4 {
			t.Errorf("%s: %d calls, want 4", name, calls)
		}
	}
}

// TestSlowCall: a call that came too slowly has stored nothing, and is repeated.
func TestSlowCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		client := over(t, func(*http.Request) (*http.Response, error) {
			if calls++; calls == 7 {
				return answer(http.StatusCreated, fmt.Sprintf(`{"outbox_id": %q}`, payment.NewID()))
			}
			return answer(http.StatusRequestTimeout, ofAPI("request-timeout", `"title": "slow"`))
		})
		_, err := client.Enqueue(t.Context(), instruction("i", "k", `{}`))
		if !errors.Is(err, outbox.ErrBusy) || errors.Is(err, outbox.ErrCommitUnknown) {
			t.Errorf("six times: %v", err)
		}
		if _, err := client.Enqueue(t.Context(), instruction("i", "k", `{}`)); err != nil {
			t.Errorf("then: %v", err)
		}
	})
}

// TestSeveralPayments: an API of several cells lists the payments of each. If two have one of the key, it is not known
// which is meant. That of a participant that was moved is one.
func TestSeveralPayments(t *testing.T) {
	t.Parallel()
	one, another := payment.NewID(), payment.NewID()
	of := func(id payment.ID, state string) string {
		return fmt.Sprintf(`{"outbox_id": %q, "state": %q}`, id, state)
	}
	for text, want := range map[string]error{
		of(one, "FAILED") + "," + of(another, "DISPATCHED"):                           outbox.ErrSeveralPayments,
		of(one, "FAILED") + "," + of(one, "FAILED") + "," + of(another, "DISPATCHED"): outbox.ErrSeveralPayments,
		of(one, "FAILED") + "," + of(one, "ELSEWHERE"):                                nil,
		of(one, "FAILED"): nil,
		"":                outbox.ErrNotFound,
	} {
		client := over(t, func(*http.Request) (*http.Response, error) {
			return answer(http.StatusOK, pageOf(text))
		})
		for range 2 {
			status, err := client.Status(t.Context(), payment.Key{InstructionID: "i", IdempotencyKey: "k"})
			if !errors.Is(err, want) || want == nil && (status.OutboxID != one || status.State != "FAILED") ||
				want != nil && status.State != "" {
				t.Errorf("%s: %+v, %v", text, status, err)
			}
			if want == outbox.ErrSeveralPayments && !strings.Contains(err.Error(), one.String()+" and "+another.String()) {
				t.Errorf("it does not name both: %v", err)
			}
		}
	}
}

// TestChangedOnTheWay: the lines of a batch that a proxy has changed the status of are read.
func TestChangedOnTheWay(t *testing.T) {
	t.Parallel()
	client := over(t, func(*http.Request) (*http.Response, error) {
		response, err := ofBatch(first, lineTwo, ended)
		response.StatusCode = http.StatusNonAuthoritativeInfo
		return response, err
	})
	results, err := client.EnqueueBatch(t.Context(), []payment.Instruction{
		instruction("i-1", "k-1", `{}`), instruction("i-2", "k-2", `{}`)})
	if err != nil || results[0].Fault != nil || results[1].Fault == nil {
		t.Errorf("%+v, %v", results, err)
	}
}

// TestTokenOfTwoLines: a token that no header can contain is not sent, and the error does not contain it.
func TestTokenOfTwoLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, err := httpclient.NewHTTP(httpclient.Config{BaseURL: "http://api.example",
			Token:     func(context.Context) (string, error) { return "rht_secret\n", nil },
			Transport: transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("it is sent") })})
		if err != nil {
			t.Fatal(err)
		}
		for way, err := range ways(client) {
			if err == nil || errors.Is(err, outbox.ErrCommitUnknown) || !strings.Contains(err.Error(), "nothing was sent") ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", way, err)
			}
		}
	})
}

// TestAnotherPayment: an answer about another payment, such as one that a cache keeps by the key alone, is none.
func TestAnotherPayment(t *testing.T) {
	t.Parallel()
	of := func(instruction, participant, key, state string) string {
		return fmt.Sprintf(`{"instruction_id": %q, "participant_id": %q, "idempotency_key": %q, "state": %q, "outbox_id": %q}`,
			instruction, participant, key, state, payment.NewID())
	}
	for text, taken := range map[string]bool{
		of("i", "p1", "k", "DISPATCHED"):     true,
		of("i", "p1", "", "ELSEWHERE"):       true,
		of("i", "p1", "", "DISPATCHED"):      false,
		of("other", "p1", "k", "DISPATCHED"): false,
		of("i", "p2", "k", "DISPATCHED"):     false,
		of("i", "p1", "other", "DISPATCHED"): false,
		of("i", "p1", "other", "ELSEWHERE"):  false,
		of("I", "p1", "k", "DISPATCHED"):     false,
	} {
		synctest.Test(t, func(t *testing.T) {
			client := over(t, func(request *http.Request) (*http.Response, error) {
				switch {
				case strings.HasSuffix(request.URL.Path, "/batch"):
					return answer(http.StatusOK, `{"line": 1, "status": 201, "instruction": `+text+"}\n"+ended)
				case request.Method == http.MethodGet && request.URL.Path == "/v1/instructions":
					return answer(http.StatusOK, pageOf(text))
				default:
					return answer(http.StatusOK, text)
				}
			})
			for way, err := range ways(client) {
				writes := way == "enqueue" || way == "batch"
				if way == "await" && errors.Is(err, outbox.ErrOtherCell) {
					err = nil
				}
				if taken != (err == nil) || errors.Is(err, outbox.ErrCommitUnknown) != (writes && !taken) ||
					errors.Is(err, outbox.ErrNotFound) {
					t.Errorf("%s, %s: %v", text, way, err)
				}
			}
		})
	}
}

// TestNothingIsLeftOfARejectedAnswer: what the answer about another payment says is no part of the next one, which
// leaves it out.
func TestNothingIsLeftOfARejectedAnswer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"enqueue", "status", "await"} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			client := over(t, func(request *http.Request) (*http.Response, error) {
				calls++
				text := fmt.Sprintf(`{"instruction_id": "i", "participant_id": "p1", "idempotency_key": "k", "state": "ELSEWHERE", `+
					`"outbox_id": %q}`, payment.NewID())
				if calls == 1 {
					text = fmt.Sprintf(`{"instruction_id": "i", "participant_id": "p2", "idempotency_key": "k", "state": "FAILED", `+
						`"certainty": "REFUSED", "waits_for_person": true, "rail_reference": "R", "replayed": true, "differs": `+
						`["expires_at"], "outbox_id": %q}`, payment.NewID())
				}
				if request.Method == http.MethodGet {
					text = pageOf(text)
				}
				return answer(http.StatusOK, text)
			})
			key := payment.Key{InstructionID: "i", IdempotencyKey: "k"}
			var receipt payment.Receipt
			var status payment.Status
			var err error
			switch name {
			case "enqueue":
				receipt, err = client.Enqueue(t.Context(), instruction("i", "k", `{}`))
			case "status":
				status, err = client.Status(t.Context(), key)
			case "await":
				if status, err = client.Await(t.Context(), key); errors.Is(err, outbox.ErrOtherCell) {
					err = nil
				} else if err == nil {
					t.Error("await: a payment in another cell rests")
				}
			}
			if err != nil || calls != 2 || receipt.Replayed || receipt.Differs != nil || status.Certainty != "" ||
				status.WaitsForPerson || status.RailReference != "" {
				t.Errorf("%s: %+v, %+v, %v", name, receipt, status, err)
			}
		})
	}
}
