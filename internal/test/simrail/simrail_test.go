package simrail_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// TestEveryShapeOpens starts the bank of every shape and opens the rail to it.
func TestEveryShapeOpens(t *testing.T) {
	t.Parallel()
	o := simrail.Options{
		Dir: t.TempDir(), CallbackURL: "http://127.0.0.1:1",
		Speed: simrail.Speed{
			Answer: time.Second, Settle: 50 * time.Millisecond, Callback: time.Second, Ask: 100 * time.Millisecond, Inquiries: 5,
			NotFoundAge: 100 * time.Millisecond, Retry: 50 * time.Millisecond, Sends: 5, Concurrency: 8,
		},
	}
	var banks []*simrail.Bank
	names := map[string]bool{}
	for _, shape := range simrail.Shapes() {
		names[shape.RailType()] = true
		bank, err := simrail.Start(shape, o)
		if err != nil {
			t.Fatalf("%s: %v", shape.RailType(), err)
		}
		defer bank.Close()
		banks = append(banks, bank)
	}
	if len(names) != 24 {
		t.Errorf("%d names for %d shapes, want 24", len(names), len(simrail.Shapes()))
	}
	file, err := simrail.Rails(banks...)
	if err != nil {
		t.Fatal(err)
	}
	for n, rail := range file.Rails {
		if _, err := railconfig.Open(rail, banks[n].Profile); err != nil {
			t.Errorf("%s: %v", rail.RailType, err)
		}
	}
	readers, err := simrail.Callbacks(file)
	if err != nil || len(readers) != 4 {
		t.Errorf("%d rails call back, %v; want the 4 that take for now and can't be asked", len(readers), err)
	}
}
