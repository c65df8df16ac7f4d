package alerts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/promrun"
)

// programs finds Prometheus. Without it the test fails, unless the variable
// RAILHEAD_WITHOUT_PROMETHEUS permits that.
func programs(t *testing.T) promrun.Programs {
	t.Helper()
	found, err := promrun.Find(t.Context(), "..")
	if errors.Is(err, promrun.ErrNone) && os.Getenv(promrun.EnvWithout) != "" {
		t.Skip(promrun.EnvWithout + " is set")
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestPromtoolChecksRules(t *testing.T) {
	t.Parallel()
	if said, err := programs(t).Promtool(t.Context(), "check", "rules", "--lint=all", "--lint-fatal",
		RulesFile); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestPromtoolTestsRules runs the tests of rules/tests.
func TestPromtoolTestsRules(t *testing.T) {
	t.Parallel()
	found := programs(t)
	files, err := filepath.Glob("rules/tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d tests, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			if said, err := found.Promtool(t.Context(), "test", "rules", file); err != nil {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

// TestScaledRulesLoad checks the rules as the end-to-end run has them.
func TestScaledRulesLoad(t *testing.T) {
	t.Parallel()
	rendered, err := Render(Settings{Scale: 60})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, rendered, 0o644); err != nil {
		t.Fatal(err)
	}
	if said, err := programs(t).Promtool(t.Context(), "check", "rules", file); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
