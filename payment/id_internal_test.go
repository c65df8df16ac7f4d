package payment

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Any two moments that differ in their microsecond give ids in their order, so
// that the archive's rows lie in the order in which they were written.
func TestIDsFollowTheClockWithinAMillisecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 4102444800_000000).Draw(t, "microseconds since 1970")
		gap := rapid.Int64Range(1, 2000).Draw(t, "gap in microseconds")
		first, second := newIDAt(time.UnixMicro(start)), newIDAt(time.UnixMicro(start+gap))
		if bytes.Compare(first[:8], second[:8]) >= 0 {
			t.Fatalf("%s comes %d µs before %s and does not sort so", first, gap, second)
		}
	})
}

func TestIDTimeFields(t *testing.T) {
	for _, test := range []struct {
		micros   int64
		millis   uint64
		fraction uint16
	}{
		{0, 0, 0},
		{1, 0, 4},
		{250, 0, 1024},
		{999, 0, 4091},
		{1000, 1, 0},
		{1_700_000_000_123_456, 1_700_000_000_123, 1867},
	} {
		id := newIDAt(time.UnixMicro(test.micros))
		millis, fraction := binary.BigEndian.Uint64(id[:8])>>16, binary.BigEndian.Uint16(id[6:8])&0xfff
		if millis != test.millis || fraction != test.fraction {
			t.Errorf("%d µs: %d ms and %d/4096, want %d and %d", test.micros, millis, fraction, test.millis, test.fraction)
		}
		if !id.Time().Equal(time.UnixMilli(int64(test.millis))) {
			t.Errorf("%d µs: Time is %s", test.micros, id.Time())
		}
	}
}
