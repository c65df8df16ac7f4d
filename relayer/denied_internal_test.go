package relayer

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/service"
)

// TestDenialOfALaneThatIsNotTried: a lane that was stopped for a missing grant, and has no slots since, such as that of
// a paused rail, does not keep the relayer from being ready after the grant was given.
func TestDenialOfALaneThatIsNotTried(t *testing.T) {
	t.Parallel()
	denied := &pgconn.PgError{Code: "42501"}
	l := lanes{byRail: map[string]*lane{"bank": {}}}
	l.stop("bank", time.Now(), denied)
	if why := l.unserved(); !strings.Contains(why, service.DeniedSays) {
		t.Errorf("it says %q, want that a grant is missing", why)
	}
	l.stop("bank", time.Now().Add(-2*time.Minute), denied)
	if why := l.unserved(); why != "" {
		t.Errorf("it says %q of a lane that was not tried since", why)
	}
}
