package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	errTwoAts = errors.New("the connection string has more than one @: write each @ of a password, or of a name, as %40")
	errSlash  = errors.New("the connection string has a / before its @: write each / of a password, or of a name, as %2F")

	errKeywords = errors.New("the connection string is neither a URL that begins with postgres:// nor a list of " +
		`name=value: put a value with a blank in single quotation marks, and write each ' and \ of it as \' and \\`)
)

// withAt are the parameters of a URL whose value may have an "@" that is not escaped.
var withAt = []string{"user", "password", "application_name", "options", "host", "passfile", "sslcert", "sslkey",
	"sslrootcert", "sslpassword", "servicefile", "krbspn"}

// withoutAt are other parameters of PostgreSQL's own programs.
var withoutAt = []string{"port", "dbname", "connect_timeout", "sslmode", "sslsni", "sslnegotiation", "sslcertmode",
	"service", "krbsrvname", "target_session_attrs", "channel_binding", "require_auth", "client_encoding"}

// CheckURL refuses a connection string in which part of a password is taken for something else, as for a host or a
// database: that is shown in errors, and names are asked of DNS. Its own errors have no part of the string but the name
// of a parameter that is known.
func CheckURL(text string) error {
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, isURL := strings.CutPrefix(text, scheme); isURL {
			return checkURL(rest)
		}
	}
	return checkKeywords(text)
}

// checkURL goes by the rules of libpq and pgx: what is before the first "@" is the login, unless a "/" is before it;
// a "?" or a "#" does not end it.
func checkURL(rest string) error {
	wrong := errSlash
	if at := strings.IndexAny(rest, "@/"); at >= 0 && rest[at] == '@' {
		rest, wrong = rest[at+1:], errTwoAts
	}
	place, query, _ := strings.Cut(rest, "?")
	if strings.Contains(place, "@") {
		return wrong
	}
	if query = strings.TrimSuffix(query, "&"); query == "" {
		return nil
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if strings.Count(pair, "=") != 1 || !isKeyword(name) ||
			strings.Contains(value, "@") && !slices.Contains(withAt, name) {
			return errPair(pair, name)
		}
	}
	return nil
}

// errPair is about a parameter of a URL. It names those that are known alone: any other name may be part of a password.
func errPair(pair, name string) error {
	which := "a parameter"
	switch {
	case pair == "":
		which = "an empty parameter"
	case slices.Contains(withAt, name), slices.Contains(withoutAt, name):
		which = "the parameter " + name
	}
	return fmt.Errorf("the connection string has %s, which is not of the form name=value: write each @, / and ? of a "+
		"password as %%40, %%2F and %%3F, and each & and = of a value as %%26 and %%3D", which)
}

const blanks = " \t\n\r\v\f"

// checkKeywords goes by the rules of libpq and pgx for name=value.
func checkKeywords(rest string) error {
	for rest = strings.TrimLeft(rest, blanks); rest != ""; rest = strings.TrimLeft(rest, blanks) {
		name, value, found := strings.Cut(rest, "=")
		if !found || !isKeyword(strings.Trim(name, blanks)) {
			return errKeywords
		}
		rest = strings.TrimLeft(value, blanks)
		end, closed := blanks, true
		if strings.HasPrefix(rest, "'") {
			rest, end, closed = rest[1:], "'", false
		}
		for rest != "" {
			one := rest[0]
			rest = rest[1:]
			if strings.IndexByte(end, one) >= 0 {
				closed = true
				break
			}
			if one == '\\' && rest != "" {
				rest = rest[1:]
			}
		}
		if !closed {
			return errKeywords
		}
	}
	return nil
}

// isKeyword reports whether a text may be the name of a parameter.
func isKeyword(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == ""
}
