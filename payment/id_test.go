package payment_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

func anyID() *rapid.Generator[payment.ID] {
	return rapid.Custom(func(t *rapid.T) payment.ID {
		return payment.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	})
}

func TestNewIDHasTheBitsOfVersionSeven(t *testing.T) {
	// Many, because a wrong bit of a random byte is right half of the time.
	for range 100 {
		before := time.Now().Truncate(time.Millisecond)
		id := payment.NewID()
		after := time.Now()
		if id[6]>>4 != 7 {
			t.Errorf("%s: version is %d, want 7", id, id[6]>>4)
		}
		if id[8]>>6 != 0b10 {
			t.Errorf("%s: variant is %02b, want 10", id, id[8]>>6)
		}
		if id.Time().Before(before) || id.Time().After(after) {
			t.Errorf("%s: its time %s is not between %s and %s", id, id.Time(), before, after)
		}
	}
	if payment.NewID().IsZero() || !(payment.ID{}).IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestNewIDsDiffer(t *testing.T) {
	seen := map[payment.ID]bool{}
	for range 10_000 {
		seen[payment.NewID()] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d different ids of 10000", len(seen))
	}
}

func TestIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyID().Draw(t, "id")
		for _, text := range []string{want.String(), strings.ToUpper(want.String())} {
			got, err := payment.ParseID(text)
			if err != nil || got != want {
				t.Fatalf("%q is read as %s, %v", text, got, err)
			}
		}
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got payment.ID
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Fatalf("%q is unmarshalled as %s, %v", text, got, err)
		}
	})
}

func TestParseIDRefuses(t *testing.T) {
	for _, text := range []string{
		"", "0", "0190163d8694739b-aea5-966c26f8ad91", "0190163d8694739baea5966c26f8ad91",
		"{0190163d-8694-739b-aea5-966c26f8ad91}", "0190163d-8694-739b-aea5-966c26f8ad9",
		"0190163d-8694-739b-aea5-966c26f8ad910", "0190163d-8694-739b-aea5-966c26f8ad9g",
		"0190163d_8694-739b-aea5-966c26f8ad91", "0190163d-8694-739b-aea5-966c26f8aé1",
		"-190163d-8694-739b-aea5-966c26f8ad91",
	} {
		kept := payment.ID{1}
		if err := kept.UnmarshalText([]byte(text)); !errors.Is(err, payment.ErrBadID) || kept != (payment.ID{1}) {
			t.Errorf("%q: error %v, id %s", text, err, kept)
		}
	}
}

func TestRailKeyIsShortAndReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := anyID().Draw(t, "id")
		key := payment.RailKey(id)
		if len(key) > 35 {
			t.Fatalf("%q has %d characters, ISO 20022 allows 35", key, len(key))
		}
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			t.Fatalf("%q has characters that not every rail takes", key)
		}
		if back, err := payment.ParseRailKey(key); err != nil || back != id {
			t.Fatalf("%q of %s leads back to %s, %v", key, id, back, err)
		}
	})
}

// The rail remembers the key: it may never change between releases.
func TestRailKeyIsFrozen(t *testing.T) {
	id, err := payment.ParseID("0190163d-8694-739b-aea5-966c26f8ad91")
	if err != nil {
		t.Fatal(err)
	}
	if key := payment.RailKey(id); key != "rh0190163d8694739baea5966c26f8ad91" {
		t.Errorf("rail key is %q", key)
	}
	const want = "rh5f69ea8b3b0ae6f3d37839fb599cd543"
	if key := payment.RailKey(payment.DeriveRailKey(id, "bank-a", "INV-1", "key-1")); key != want {
		t.Errorf("derived rail key is %q, want %q", key, want)
	}
}

func TestParseRailKeyRefuses(t *testing.T) {
	good := payment.RailKey(payment.NewID())
	for _, key := range []string{"", "rh", good[2:], good + "0", good[:33], "xx" + good[2:], "RH" + good[2:],
		good[:33] + "g"} {
		if id, err := payment.ParseRailKey(key); err == nil {
			t.Errorf("%q leads to %s", key, id)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0190163d-8694-739b-aea5-966c26f8ad91")
	f.Add("0190163d-8694-739b-aea5-966c26f8ad9\x00")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := payment.ParseID(text)
		if err == nil && !bytes.EqualFold([]byte(id.String()), []byte(text)) {
			t.Fatalf("%q is read as %s", text, id)
		}
	})
}
