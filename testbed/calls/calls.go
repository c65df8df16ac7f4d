// Package calls delivers callbacks of rails to the product's receiver, signed as rails sign them.
package calls

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/payment"
	railcallback "github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/secret"
)

// key signs every callback. It protects nothing.
var key = []byte("what the rails of the rig sign by")

// Receiver is the product's receiver of callbacks, in front of a store.
type Receiver struct{ mux *http.ServeMux }

// Open opens a receiver for rails whose callbacks report EXECUTED and REFUSED by the given words.
func Open(rails []string, executed, refused string, store callback.Store, watch callback.Observer) (*Receiver, error) {
	var ref secret.Ref
	if err := ref.UnmarshalText([]byte("env:SECRET")); err != nil {
		return nil, err
	}
	table, err := codes.Named("iso20022")
	if err != nil {
		return nil, err
	}
	readers := make(map[string]*railcallback.Reader)
	for _, rail := range rails {
		readers[rail], err = railcallback.Open(railcallback.Config{
			Secrets: []secret.Ref{ref}, Key: "key", Status: "status", Reference: "reference",
			Statuses: map[string]payment.Result{executed: payment.ResultExecuted, refused: payment.ResultRefused},
		}, table, func(string) string { return base64.StdEncoding.EncodeToString(key) }, time.Now)
		if err != nil {
			return nil, err
		}
	}
	receiver, err := callback.NewReceiver(readers, store, "callbacks-1", time.Minute, watch, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	receiver.Register(mux)
	return &Receiver{mux}, nil
}

// Report is what a rail reports in an event, without having been asked.
type Report struct {
	Rail, Event       string
	Key               string // of the payment, as the rail knows it
	Status, Reference string
}

// Deliver delivers a report, and returns an error unless it is accepted.
func (r *Receiver) Deliver(ctx context.Context, said Report) error {
	body := fmt.Sprintf(`{"key": %q, "status": %q, "reference": %q}`, said.Key, said.Status, said.Reference)
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/callbacks/"+said.Rail, strings.NewReader(body))
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(said.Event + "." + stamp + "." + body))
	request.Header.Set("webhook-id", said.Event)
	request.Header.Set("webhook-timestamp", stamp)
	request.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	answer := httptest.NewRecorder()
	r.mux.ServeHTTP(answer, request)
	if answer.Code != http.StatusNoContent {
		return fmt.Errorf("the callback was answered %d: %s", answer.Code, strings.TrimSpace(answer.Body.String()))
	}
	return nil
}
