package pgtest_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestNew(t *testing.T) {
	t.Parallel()
	for range 20 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			if _, err := db.Pool(t, "").Exec(t.Context(), "SELECT 1"); err != nil {
				t.Fatal(err)
			}
		})
	}
}
