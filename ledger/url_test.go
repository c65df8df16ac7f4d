package ledger_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ledger"
)

// TestCheckURL: a password with an "@" that is not escaped is refused, and no part of it is told.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]bool{
		"postgres://a:p@secret@h/db": true, "postgresql://a:p@secret/x@h:5432,g:5433/db": true, "postgres://a:p@s#secret@h/": true,
		"postgres://a:p%40secret@h/db": false, "postgres://a@h/db?application_name=a@b@c": false, "postgres:///db": false,
		"host=h user=a password=p@sec@ret": false, "": false,
	} {
		err := ledger.CheckURL(text)
		if (err != nil) != refused || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
