package httpclient_test

import (
	"bytes"
	"context"
	"encoding/json"
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

// transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip makes the call. An instruction in the answer that has no name yet is the one that was asked for.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	var asked []byte
	if request.Body != nil {
		var err error
		if asked, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(bytes.NewReader(asked))
	}
	response, err := t(request)
	if err != nil || response.Body == nil {
		return response, err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(asked)), "\n")
	said := strings.SplitAfter(string(text), "\n")
	for n, each := range said {
		var line struct {
			Line int `json:"line"`
		}
		if json.Unmarshal([]byte(each), &line) == nil && line.Line <= len(lines) {
			said[n] = named(each, lines[max(line.Line, 1)-1], request)
		}
	}
	response.Body = io.NopCloser(strings.NewReader(strings.Join(said, "")))
	return response, nil
}

// named gives the instructions of an answer the names of the one that was asked for.
func named(said, line string, request *http.Request) string {
	in := struct {
		InstructionID  string `json:"instruction_id"`
		IdempotencyKey string `json:"idempotency_key"`
	}{"i", "k"} // what a reading asks for
	json.Unmarshal([]byte(line), &in) //nolint:errcheck // a reading has no body
	if key := request.Header.Get("Idempotency-Key"); key != "" {
		in.IdempotencyKey = key
	}
	return strings.ReplaceAll(said, `{"outbox_id"`, fmt.Sprintf(`{"instruction_id": %q, "participant_id": "p1", `+
		`"idempotency_key": %q, "outbox_id"`, in.InstructionID, in.IdempotencyKey))
}

func answer(status int, text string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
}

func over(t *testing.T, calls transport) *httpclient.HTTP {
	t.Helper()
	client, err := httpclient.NewHTTP(httpclient.Config{
		BaseURL: "http://api.example", ParticipantID: "p1", Transport: calls,
		Token: func(context.Context) (string, error) { return "token", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestBatchUnderAQuota: a batch of which a quota allows a few lines at a time is sent to its end, and not more often
// than the API asks for.
func TestBatchUnderAQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		client := over(t, func(request *http.Request) (*http.Response, error) {
			calls++
			text, err := io.ReadAll(request.Body)
			if err != nil {
				return nil, err
			}
			var said strings.Builder
			for n := range bytes.Count(text, []byte("\n")) {
				if n < 2 {
					fmt.Fprintf(&said, `{"line": %d, "status": 201, "instruction": {"outbox_id": %q}}`+"\n", n+1, payment.NewID())
				} else {
					fmt.Fprintf(&said, `{"line": %d, "status": 429, "problem": {`+typed+`"title": "full", "retry_after": %d}}`+"\n", n+1,
						min(5*(n-1), 20))
				}
			}
			return answer(http.StatusOK, said.String())
		})
		all := make([]payment.Instruction, 20)
		for n := range all {
			all[n] = instruction(fmt.Sprint("i-", n), fmt.Sprint("k-", n), `{}`)
		}
		began := time.Now()
		results, err := client.EnqueueBatch(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for n, each := range results {
			if each.Fault != nil {
				t.Errorf("line %d: %v", n+1, each.Fault)
			}
		}
		// 20 s are asked for eight times, and 10 s before the last two lines.
		if took := time.Since(began); calls != 10 || took < 170*time.Second || took > 172*time.Second {
			t.Errorf("%d calls in %v", calls, took)
		}
	})
}

// TestWhatIsAskedFor: a call waits as long as the API asks for, up to two minutes.
func TestWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asks := []string{"30", "3600", "none"}
		var waited []time.Duration
		last := time.Now()
		client := over(t, func(*http.Request) (*http.Response, error) {
			waited, last = append(waited, time.Since(last).Truncate(time.Second)), time.Now()
			if len(waited) > len(asks) {
				return answer(http.StatusCreated, fmt.Sprintf(`{"outbox_id": %q}`, payment.NewID()))
			}
			response, err := answer(http.StatusServiceUnavailable, ofAPI("unavailable", `"title": "not now", "commit": "none"`))
			response.Header.Set("Retry-After", asks[len(waited)-1])
			return response, err
		})
		if _, err := client.Enqueue(t.Context(), instruction("i", "k", `{}`)); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(waited); got != "[0s 30s 2m0s 0s]" {
			t.Errorf("waited %s", got)
		}
	})
}

// TestReadingIsNoCommit: of a reading without an answer it is not said that something may be stored.
func TestReadingIsNoCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for what, says := range map[string]transport{
			"no answer":  func(*http.Request) (*http.Response, error) { return nil, errors.New("the network is down") },
			"cut":        func(*http.Request) (*http.Response, error) { return answer(http.StatusOK, `{"items": [`) },
			"no problem": func(*http.Request) (*http.Response, error) { return answer(http.StatusBadGateway, "") },
		} {
			client := over(t, says)
			_, err := client.Status(t.Context(), payment.Key{InstructionID: "i", IdempotencyKey: "k"})
			if err == nil || errors.Is(err, outbox.ErrCommitUnknown) || errors.Is(err, outbox.ErrNotFound) {
				t.Errorf("a status, %s: %v", what, err)
			}
			if _, err := client.Enqueue(t.Context(), instruction("i", "k", `{}`)); !errors.Is(err, outbox.ErrCommitUnknown) {
				t.Errorf("an enqueue, %s: %v", what, err)
			}
		}
	})
}
