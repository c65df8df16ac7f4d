package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestListsSayThatTheyAreCut: in each form a list says that there may be more, and says nothing where there is none.
func TestListsSayThatTheyAreCut(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1", "INV-2", "INV-3")
	for _, claim := range works.claim() {
		works.answer(claim, payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
	}
	for _, list := range []string{"dead-letter list", "payment list"} {
		who.want(exitUsage, append(strings.Fields(list), "--limit", "0")...)
		for _, form := range []string{"table", "json", "jsonl"} {
			args := append(strings.Fields(list), "-o", form, "--limit")
			whole := who.want(exitOK, append(args, "10")...)
			if said := whole.out + whole.errors; strings.Contains(said, "may be more") || strings.Contains(said, `"next"`) {
				t.Errorf("%v 10: it said %q and %q", args, whole.out, whole.errors)
			}
			cut := who.want(exitOK, append(args, "2")...)
			says := cut.errors
			if form == "table" {
				says = cut.out
			}
			if !strings.Contains(says, "there may be more: ") && !(form == "json" && strings.Contains(cut.out, `"next"`)) {
				t.Errorf("%v 2: it said %q and %q", args, cut.out, cut.errors)
			}
		}
	}
	first := who.want(exitOK, "payment", "list", "--limit", "2", "-o", "jsonl")
	_, next, found := strings.Cut(strings.TrimSpace(first.errors), "--before ")
	if !found {
		t.Fatalf("it said %q", first.errors)
	}
	if rest := who.want(exitOK, "payment", "list", "-o", "jsonl", "--before", next); strings.Count(rest.out, "\n") != 1 ||
		rest.errors != "" {
		t.Errorf("the next page is %q, and it said %q", rest.out, rest.errors)
	}

	// A filter that nothing passes among those that are examined lists nothing, which is not "there is none".
	var many strings.Builder
	for n := range 21_000 {
		fmt.Fprintf(&many, `{"instruction_id":"many-%d","participant_id":"p%d","idempotency_key":"k","rail_type":"bank",`+
			`"payload":{"amount":"1.00","currency":"EUR"}}`+"\n", n, n%100)
	}
	who.want(exitOK, "enqueue", "--file", writeFile(t, "many.jsonl", many.String()), "-o", "jsonl")
	none := who.want(exitOK, "payment", "list", "--state", "CANCELLED", "-o", "jsonl")
	const says = "0 are listed, and there may be more: 20"
	if none.out != "" || !strings.Contains(none.errors, says) {
		t.Errorf("it said %q and %q", none.out, none.errors)
	}
}

// TestTokenListSaysThatItIsCut: in each form, and in no place where nothing is left out.
func TestTokenListSaysThatItIsCut(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	insert := `INSERT INTO railhead.payment_api_tokens (token_digest, token_id, name, participants, verbs, created_at,
		  expires_at)
		SELECT sha256(n::text::bytea), left(encode(sha256(n::text::bytea), 'hex'), 16), 'token ' || n, '{p1}', '{READ}',
		  now() - n * interval '1 minute', now() + interval '1 day'
		FROM generate_series($1::integer, $2::integer) n`
	cell.Exec(insert, 1, reader.TokensMax)
	for _, cut := range []bool{false, true} {
		if cut {
			cell.Exec(insert, reader.TokensMax+1, reader.TokensMax+1)
		}
		for _, form := range []string{"table", "json"} {
			got := who.want(exitOK, "token", "list", "-o", form)
			if strings.Contains(got.errors, "older tokens are left out: these are the newest 10000") != cut {
				t.Errorf("as %s, cut %t: it said %q", form, cut, got.errors)
			}
		}
	}
}

// TestNoSuchRailIsNoEmptyList: the wrong name of a rail does not look like a rail of which nothing is to be listed.
func TestNoSuchRailIsNoEmptyList(t *testing.T) {
	t.Parallel()
	who := at(t, celltest.New(t))
	for _, list := range []string{
		"dead-letter list", "dead-letter list --by-code", "payment list", "payment tail --once", "dead-letter list -o jsonl",
		"payment list --state PENDING -o json",
	} {
		args := strings.Fields(list)
		if got := who.want(exitNotFound, append(args, "--rail", "bnak")...); got.out != "" ||
			!strings.Contains(got.errors, `there is no rail "bnak"`) {
			t.Errorf("%s: it said %q and %q", list, got.out, got.errors)
		}
		who.want(exitOK, append(args, "--rail", celltest.Bank)...)
	}
}
