package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// TestType is the type of an event that is not about a payment.
const TestType = "railhead.test"

// Tested is the result of a test of an endpoint.
type Tested struct {
	ID         string        `json:"id"` // of the event
	HTTPStatus int           `json:"http_status"`
	Took       time.Duration `json:"took_ns"`
}

// Errors of Test.
var (
	ErrNoEndpoint = errors.New("the file names no such endpoint")
	ErrNotTaken   = errors.New("the endpoint did not take the event")
)

// Test sends one event, which is not about a payment, to an endpoint of a file, signed as all
// events are. An error that wraps ErrNotTaken contains the reason in one word.
func Test(ctx context.Context, file File, id string, getenv func(string) string) (Tested, error) {
	for _, endpoint := range file.Endpoints {
		if endpoint.ID != id {
			continue
		}
		signer, err := newSigner(endpoint, getenv)
		if err != nil {
			return Tested{}, err
		}
		sender := newSender(endpoint, signer, time.Now)
		defer sender.close()
		began := time.Now()
		tested := Tested{ID: "evt_test_" + strings.ToLower(rand.Text())}
		body, err := json.Marshal(map[string]any{"id": tested.ID, "type": TestType, "timestamp": began.UTC(),
			"data": map[string]any{}})
		if err != nil {
			return Tested{}, fmt.Errorf("making the event: %w", err)
		}
		said := sender.post(ctx, tested.ID, body)
		tested.HTTPStatus, tested.Took = said.code, time.Since(began)
		if !said.taken {
			return tested, fmt.Errorf("%w: %s", ErrNotTaken, said.status)
		}
		return tested, nil
	}
	return Tested{}, fmt.Errorf("%w: %q", ErrNoEndpoint, id)
}
