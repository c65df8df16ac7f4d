package proofs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/proofs"
)

// arrived makes a cell one of a directory to which a participant came with one key.
const arrived = `
	INSERT INTO railhead.payment_cells (name, cell_id, setting, cell_schema, directory_id, here, reason)
	VALUES ('east', gen_random_uuid(), 'EAST', 'railhead', gen_random_uuid(), true, 'x');
	INSERT INTO railhead.payment_arrived_participants VALUES (9, 1, 'came', 2);
	INSERT INTO railhead.payment_arrived_keys (bucket, version, outbox_id, sequence_id, created_at, participant_id,
		instruction_id, idempotency_key, fingerprint)
	VALUES (9, 1, railhead.uuidv7(), 1, now(), 'came', 'came-1', 'k', sha256('x'));
	INSERT INTO railhead.payment_arrivals (bucket, version, digest, complete_at)
	SELECT 9, 1, d.digest, now() FROM railhead.moved_digest(9, 1, true) d;
	INSERT INTO railhead.payment_cell_changes (bucket, version, cell, cell_id, digest, reason)
	SELECT b.bucket, 1, 'east', c.cell_id, coalesce(a.digest, ''), 'x'
	FROM railhead.payment_cells c
	CROSS JOIN railhead.payment_buckets b
	LEFT JOIN railhead.payment_arrivals a ON a.bucket = b.bucket;
	UPDATE railhead.payment_buckets SET cell = 'east', version = 1`

// TestSeenIsSo: the number of rows that a proof reports as checked is that of a separate count.
func TestSeenIsSo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/seen.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var book map[string][]struct {
		Says  string `yaml:"says"`
		Holds string `yaml:"holds"`
	}
	if err := yaml.UnmarshalWithOptions(text, &book, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	_, cluster := pgtest.Server(t, pgserver.Options{})
	db := database(t, cluster)
	super := db.Conn(t, "")
	if _, err := super.Exec(t.Context(), arrived); err != nil {
		t.Fatal(err)
	}
	passed, printed := make(map[string]bool), make(map[string]bool)
	looks := []struct {
		login string
		o     proofs.Options
	}{
		{"", proofs.Options{Behaviour: true, Logins: celltest.Logins(), InFlightMax: unhurried}},
		{celltest.Auditor, proofs.Options{Logins: celltest.Logins(), InFlightMax: unhurried}},
		{celltest.Auditor, proofs.Options{Names: []string{"sequence"}, Since: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}},
	}
	for _, look := range looks {
		report := prove(t, db.Conn(t, look.login), look.o)
		for _, result := range report.Proofs {
			if result.Status != proofs.Passed {
				continue
			}
			passed[result.Name] = true
			known := false
			for _, sentence := range book[result.Name] {
				form := regexp.MustCompile(`\A(?:` + sentence.Says + `)\z`)
				found := form.FindStringSubmatch(result.Seen)
				if found == nil {
					continue
				}
				known, printed[sentence.Says] = true, true
				holds := sentence.Holds
				for n, name := range form.SubexpNames() {
					holds = strings.ReplaceAll(holds, "{"+name+"}", found[n])
				}
				var is bool
				if err := super.QueryRow(t.Context(), "SELECT coalesce(("+holds+"), false)").Scan(&is); err != nil {
					t.Fatalf("%s: %s: %v", result.Name, holds, err)
				}
				if !is {
					t.Errorf("%s, as %q, says %q, which is not so: %s", result.Name, look.login, result.Seen, holds)
				}
			}
			if !known {
				t.Errorf("testdata/seen.yaml has no line of %s that is %q", result.Name, result.Seen)
			}
		}
	}
	for _, proof := range proofs.All() {
		if !passed[proof.Name] {
			t.Errorf("%s did not pass: what it says was not held to anything", proof.Name)
		}
	}
	for name, sentences := range book {
		for _, sentence := range sentences {
			if !printed[sentence.Says] {
				t.Errorf("%s did not say %q: testdata/seen.yaml holds it to nothing", name, sentence.Says)
			}
		}
	}
}
