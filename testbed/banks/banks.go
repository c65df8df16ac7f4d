// Package banks controls the faults of simulated banks that run as processes of their own.
package banks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/railsim"
)

// Control is the address at which a bank takes commands.
type Control struct{ URL string }

// Spoil puts fault rules in force; without rules it heals the bank.
func (c Control) Spoil(ctx context.Context, rules ...railsim.Fault) error {
	if rules == nil {
		rules = []railsim.Fault{}
	}
	body, err := json.Marshal(map[string]any{"rules": rules})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, c.URL+"/admin/faults", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return c.ask(request, nil)
}

// Spoiled returns how many requests and connections the faults have hit so far.
func (c Control) Spoiled(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/admin/faults", http.NoBody)
	if err != nil {
		return 0, err
	}
	var state railsim.FaultState
	if err := c.ask(request, &state); err != nil {
		return 0, err
	}
	sum := 0
	for _, n := range state.Totals {
		sum += int(n)
	}
	return sum, nil
}

func (c Control) ask(request *http.Request, into any) error {
	// A connection fault may hit this connection like any other, so the request is repeated.
	client := &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	var last error
	for range 60 {
		answer, err := client.Do(request)
		if err != nil {
			last = err
			if request.GetBody != nil {
				request.Body, _ = request.GetBody()
			}
			continue
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
		answer.Body.Close()
		switch {
		case err != nil:
			last = err
			continue
		case answer.StatusCode != http.StatusOK:
			return fmt.Errorf("%s: %s: %s", request.URL.Path, answer.Status, text)
		case into == nil:
			return nil
		}
		return json.Unmarshal(text, into)
	}
	return fmt.Errorf("%s: the bank does not answer: %w", request.URL.Path, last)
}
