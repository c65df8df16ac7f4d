package payment_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                  "0s",
		250 * time.Millisecond:             "250ms",
		30 * time.Second:                   "30s",
		time.Minute:                        "1m",
		10 * time.Minute:                   "10m",
		90 * time.Second:                   "1m30s",
		time.Hour:                          "1h",
		20 * time.Hour:                     "20h",
		24 * time.Hour:                     "24h",
		time.Hour + 10*time.Minute:         "1h10m",
		time.Hour + 10*time.Second:         "1h0m10s",
		-time.Hour:                         "-1h",
		1500 * time.Millisecond:            "1.5s",
		time.Minute + 500*time.Millisecond: "1m0.5s",
	} {
		if got := payment.Duration(d).String(); got != want {
			t.Errorf("%s is written %q, want %q", d, got, want)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := payment.Duration(rapid.Int64().Draw(t, "nanoseconds"))
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got payment.Duration
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Fatalf("%d is written %s and read as %d, %v", want, text, got, err)
		}
	})
}

func TestDurationRefuses(t *testing.T) {
	for _, text := range []string{`""`, `"30"`, `"1d"`, `"1 h"`, `"h"`, `30`, `"9999999h"`} {
		kept := payment.Duration(time.Second)
		if err := json.Unmarshal([]byte(text), &kept); err == nil || kept != payment.Duration(time.Second) {
			t.Errorf("%s is read as %s, %v", text, kept, err)
		}
	}
}
