package ledger

import (
	"errors"
	"strings"
)

// CheckURL refuses a connection string of the form of a URL that has more than one "@" before its parameters: what
// follows the first one is taken for a host or a database, and is shown in errors, though it may be of the password.
func CheckURL(text string) error {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL || scheme != "postgres" && scheme != "postgresql" {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "?")
	if strings.Count(rest, "@") > 1 {
		return errors.New("the connection string has more than one @: write each @ of a password, or of a name, as %40")
	}
	return nil
}
