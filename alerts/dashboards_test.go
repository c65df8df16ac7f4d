package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestEveryExpressionParses has promtool read each expression of the dashboards
// and of the runbooks' commands, Grafana's variables filled in.
func TestEveryExpressionParses(t *testing.T) {
	t.Parallel()
	b, err := load(Files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	var rules []map[string]string
	add := func(expr string) {
		rules = append(rules, map[string]string{"record": fmt.Sprintf("panel:%d", len(rules)), "expr": filled(expr)})
	}
	for _, one := range b.dashboards {
		for _, p := range one.Panels {
			for _, target := range p.Targets {
				if target.Expr != "" {
					add(target.Expr)
				}
			}
		}
	}
	panels := len(rules)
	for _, text := range b.runbooks {
		for _, expr := range queries(text) {
			add(expr)
		}
	}
	if panels < 50 || len(rules)-panels < 40 {
		t.Fatalf("only %d expressions in dashboards and %d in runbooks", panels, len(rules)-panels)
	}
	said, err := checkRules(t, rules)
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if said, err := checkRules(t, append(rules,
		map[string]string{"record": "panel:broken", "expr": "max by (rail) (a"})); err == nil {
		t.Errorf("a broken expression was not noticed:\n%s", said)
	}
}

func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$cell", ".*", "$rail", "bank").Replace(expr)
}

func checkRules(t *testing.T, rules []map[string]string) (string, error) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml") // JSON is YAML
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return programs(t).Promtool(t.Context(), "check", "rules", file)
}

// TestParticipantSQL runs the statements of the participant's dashboard as the
// role that Grafana should have, for a participant with one payment.
func TestParticipantSQL(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := cell.Conn(t, celltest.Ingest)
	if _, err := ingest.Exec(t.Context(), `SELECT `+cell.Schema+`.enqueue_payment_outbox('i-1', 'p''1', 'k-1', 'bank',
	  '{"amount": "10.50", "currency": "EUR"}')`); err != nil {
		t.Fatal(err)
	}
	b, err := load(Files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	conn := cell.Conn(t, celltest.Readonly)
	// The panels in which a participant without pause and dead letter has rows.
	rows := map[string]int{"Waiting": 1, "Money in pending": 1, "The stream": 1, "Newest 50": 1, "Paused": 0,
		"Open dead letters": 0}
	asked := 0
	for _, p := range b.dashboards["participant.json"].Panels {
		for _, target := range p.Targets {
			statement := strings.NewReplacer("${cell:raw}", cell.Schema, "${participant:sqlstring}",
				"'p''1'").Replace(target.SQL)
			found, err := conn.Query(t.Context(), statement)
			if err != nil {
				t.Fatalf("%s: %v", p.Title, err)
			}
			n := 0
			for found.Next() {
				n++
			}
			if err := found.Err(); err != nil || n != rows[p.Title] {
				t.Errorf("%s: %d rows, %v; want %d", p.Title, n, err, rows[p.Title])
			}
			asked++
		}
	}
	if asked != len(rows) {
		t.Errorf("%d statements were asked, want %d", asked, len(rows))
	}
}
