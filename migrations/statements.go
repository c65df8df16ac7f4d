package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// token is what a semicolon may be in without ending a statement, up to the beginning of a text in
// dollar quotes, or a semicolon.
var token = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|\b[eE]'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|\$(?:[A-Za-z_]\w*)?\$|;`)

// statementsOf splits a text behind each statement. Joined, they are the text.
func statementsOf(text string) []string {
	var all []string
	begins := 0
	for at := 0; ; {
		found := token.FindStringIndex(text[at:])
		if found == nil {
			break
		}
		what := text[at+found[0] : at+found[1]]
		at += found[1]
		switch what[0] {
		case '$':
			if end := strings.Index(text[at:], what); end >= 0 {
				at += end + len(what)
			}
		case ';':
			all = append(all, text[begins:at])
			begins = at
		}
	}
	if strings.TrimSpace(text[begins:]) != "" {
		all = append(all, text[begins:])
	}
	return all
}

// The waits of one try for locks. Callers wait behind the first lock that a statement waits for,
// and behind those that the statements before it have taken, until the try ends.
const (
	locksWait     = 900 * time.Millisecond // of all statements together
	locksWaitLast = 100 * time.Millisecond // of each statement after that time
)

// run executes the statements of a text one by one, each with what is left of locksWait. Errors
// begin with the name of the text.
func run(ctx context.Context, tx *sql.Tx, name, text string) error {
	begun, last := time.Now(), time.Duration(0)
	at := 0
	for _, statement := range statementsOf(text) {
		wait := max(locksWait-time.Since(begun), 0).Truncate(locksWaitLast) + locksWaitLast
		if wait != last {
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", wait.Milliseconds())); err != nil {
				return fmt.Errorf("setting how long %s waits: %w", name, err)
			}
			last = wait
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s%s: %w", name, lineOf(err, text, at), err)
		}
		at += len(statement)
	}
	return nil
}
