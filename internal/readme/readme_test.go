// Package readme runs what the README, the pages of docs and the help texts tell
// people to type.
package readme

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// blocks are the code blocks of the README in one language, in order.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1])
	}
	if len(found) == 0 {
		t.Fatalf("the README has no %s block", language)
	}
	return found
}

// TestLinks finds what the README links to, and a page for each of its readers
// above the first section.
func TestLinks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join("../..", match[1])); err != nil {
			t.Error(err)
		}
	}
	first, _, _ := strings.Cut(string(text), "\n## ")
	for _, page := range []string{"docs/ingest.md", "docs/operations.md", "docs/audit.md"} {
		if !strings.Contains(first, "]("+page) {
			t.Errorf("the first screen does not link to %s", page)
		}
	}
}

func TestSQL(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, celltest.Ingest)
	for n, block := range blocks(t, "sql") {
		for _, replayed := range []bool{false, true} {
			rows, err := conn.Query(t.Context(), block)
			if err != nil {
				t.Fatalf("block %d: %v", n, err)
			}
			got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
			if err != nil {
				t.Fatalf("block %d: %v", n, err)
			}
			if got["state"] != "PENDING" || got["replayed"] != replayed {
				t.Errorf("block %d: %v", n, got)
			}
		}
	}
}

// enqueueFromGo is the README's Go block; TestGo holds the two to each other.
func enqueueFromGo(ctx context.Context, url string, tx pgx.Tx, use func(railhead.Receipt)) error {
	client, err := railhead.Open(ctx, railhead.Config{URL: url})
	if err != nil {
		return err
	}
	defer client.Close()
	receipt, err := client.EnqueueTx(ctx, tx, railhead.Instruction{
		InstructionID:  "invoice-4712",
		ParticipantID:  "bank-north",
		IdempotencyKey: "invoice-4712-payment",
		RailType:       "bank",
		Payload:        json.RawMessage(`{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}`),
	})
	use(receipt)
	return err
}

func TestGo(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "use func(railhead.Receipt)) error {\n")
	body, _, _ = strings.Cut(body, "\tuse(receipt)\n")
	var flat strings.Builder
	for line := range strings.Lines(body) {
		flat.WriteString(strings.TrimPrefix(line, "\t"))
	}
	if block := blocks(t, "go")[0]; block != flat.String() {
		t.Errorf("the README's Go block is not what is tested:\n%s\n---\n%s", block, flat.String())
	}

	cell := celltest.New(t)
	conn := cell.Conn(t, celltest.Ingest)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var got railhead.Receipt
	if err := enqueueFromGo(t.Context(), cell.URL(celltest.Ingest), tx, func(r railhead.Receipt) { got = r }); err != nil {
		t.Fatal(err)
	}
	if got.OutboxID.IsZero() || got.SequenceID != 1 || got.Replayed {
		t.Errorf("receipt %+v", got)
	}
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_pending"); n != 0 {
		t.Error("the instruction is there before the caller has committed")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_pending"); n != 1 {
		t.Error("the instruction is not there after the caller has committed")
	}
}
