package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// TestCommitLost: where the answer to the commit of an act is lost, the command says that it may have been done, and
// where to look; that a repetition is safe is said of those acts alone that complete what was broken off.
func TestCommitLost(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}`)
	enqueued(who, "INV-1", "INV-2")
	works.park(works.claim()[0])
	for _, test := range []struct{ act, log, say string }{
		{"rail pause bank", "PAUSE_RAIL", repeatAct},
		{"settings set claim_timeout 4m", "SET_TIME_BUDGET", repeatAct},
		{"payment reveal INV-2", "REVEAL_PAYLOAD", repeatOnPayment},
		{"dead-letter acknowledge INV-1", "TRIAGE", repeatOnPayment},
		{"dead-letter escalate INV-1 INV-2", "TRIAGE", repeatOnPayment},
	} {
		before := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = $1`, test.log)
		broken := &between{answered: once(committed, lost)}
		got := who.through(cell, broken).run(append(strings.Fields(test.act), "--reason", "x")...)
		if got.code == exitOK || got.out != "" || !strings.Contains(got.errors, outbox.ErrCommitUnknown.Error()) ||
			!strings.Contains(got.errors, test.say) || strings.Contains(got.errors, enqueueAgain) ||
			strings.Contains(got.errors, "Check that the server runs") {
			t.Errorf("%s: exit code %d, said %q and %q", test.act, got.code, got.out, got.errors)
		}
		if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = $1`, test.log); n != before+1 {
			t.Errorf("%s: the log has %d acts, and had %d", test.act, n, before)
		}
	}
}

// TestAdviceAfterALostCommit: what is advised is true of the command.
func TestAdviceAfterALostCommit(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("one: %w", outbox.ErrCommitUnknown)
	for said, err := range map[string]error{
		enqueueAgain: lost, repeatOnPayment: ifLost(repeatAct, ifLost(repeatOnPayment, lost)),
		completes: ifLost(completes, lost), "": ifLost("", lost),
	} {
		if got := advice(err); got != said {
			t.Errorf("%q is advised, want %q", got, said)
		}
	}
	if err := fmt.Errorf("two"); ifLost(repeatOnPayment, err) != err {
		t.Error("an error that leaves nothing open has the advice")
	}
}

// TestTokenThatWasNotShown: where the answer to the creation of a token is lost, it is said that one may be in force.
func TestTokenThatWasNotShown(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	var answers atomic.Int32 // until the one that is lost; 0: none is
	b := &between{
		asked: func(b []byte) fate {
			if bytes.Contains(b, []byte("create_api_token")) {
				answers.Store(2) // to its preparation, and to its execution
			}
			return pass
		},
		answered: func([]byte) fate {
			if answers.Load() > 0 && answers.Add(-1) == 0 {
				return lost
			}
			return pass
		},
	}
	who := at(t, cell)
	got := who.throughAs("RAILHEAD_ADMIN_URL", cell.URL(""), b).run("token", "create", "--name", "shop", "--participant",
		"p1", "--reason", "x")
	if got.code == exitOK || got.out != "" || !strings.Contains(got.errors, tokenUnseen) {
		t.Errorf("exit code %d, said %q and %q", got.code, got.out, got.errors)
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_api_tokens`); n != 1 {
		t.Errorf("%d tokens are there", n)
	}
}

// TestServerThatHangs: an act ends where its server does not answer any more and no connection breaks. Before its
// commit nothing was done; after it that is not known.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ at, act, say, advice string }{
		{"pause_rail", "rail pause bank", "nothing was done: the server did not answer within 15s", "Check that the server"},
		{"commit\x00", "rail pause bank", "the server did not answer the commit within 15s", repeatAct},
		{"rail_reference", "payment cancel INV-1", "it has not ended within 15s: looking for", "Check that the server"},
		{"cancel_payment", "payment cancel INV-1", "nothing was done: the server did not answer within 15s", "Check that"},
	} {
		t.Run(strings.TrimSuffix(test.at, "\x00"), func(t *testing.T) {
			t.Parallel()
			cell := celltest.New(t)
			who := at(t, cell)
			enqueued(who, "INV-1")
			hangs := &between{asked: once(func(b []byte) bool {
				return bytes.Contains(bytes.ToLower(b), []byte(test.at))
			}, frozen)}
			begun := time.Now()
			got := who.through(cell, hangs).want(exitUnreachable, append(strings.Fields(test.act), "--reason", "x")...)
			if took := time.Since(begun); took > 25*time.Second {
				t.Errorf("it took %s", took)
			}
			if got.out != "" || !strings.Contains(got.errors, test.say) || !strings.Contains(got.errors, test.advice) {
				t.Errorf("it said %q and %q", got.out, got.errors)
			}
			if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE reason = 'x'`); n != 0 {
				t.Errorf("the log has %d acts", n) // the commit did not arrive
			}
		})
	}
}
