package celltest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Retention has the commands of docs/operations.md by which a month leaves the archive.
type Retention struct {
	Schema string // once
	Detach string
	Attach string // again
}

// RetentionOf reads the commands for the month of a payment, for a test of a package of the top level.
func RetentionOf(t testing.TB, id payment.ID) Retention {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	block := func(before string) string {
		t.Helper()
		_, after, found := strings.Cut(rest, before+"\n\n```sql\n")
		commands, behind, ended := strings.Cut(after, "```")
		if !found || !ended {
			t.Fatalf("the page has no commands after %q", before)
		}
		rest = behind
		return commands
	}
	at := id.Time().UTC()
	month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	actual := strings.NewReplacer(
		"payment_outbox_attempts_y2025m07", month.Format("payment_outbox_attempts_y2006m01"),
		"payment_outbox_instructions_y2025m07", month.Format("payment_outbox_instructions_y2006m01"),
		"2025-07-01", month.Format(time.DateOnly), "2025-08-01", month.AddDate(0, 1, 0).Format(time.DateOnly))
	schema := block("owner of the database, once:")
	detach := block("for July 2025:")
	return Retention{Schema: schema, Detach: actual.Replace(detach), Attach: actual.Replace(block("at a quiet time."))}
}
