package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// Exit codes. They are part of the command's contract: scripts branch on them.
const (
	exitOK          = 0
	exitFailure     = 1   // anything else
	exitUsage       = 2   // the command line, the environment, a file or an instruction is wrong
	exitNotFound    = 3   // no such instruction, rail or file
	exitDenied      = 4   // the login may not do this
	exitConflict    = 5   // the same key with other content, or the same instruction under another key
	exitUnreachable = 6   // the database can't be reached
	exitPartial     = 7   // some items were refused, the others went in
	exitProof       = 8   // a proof or a comparison failed, or a proof that was asked for did not run
	exitNotAllowed  = 9   // the state of the instruction does not allow the act
	exitClosed      = 10  // an operator has closed enqueue: nothing was stored
	exitInterrupted = 130 // stopped by a signal
)

// exitError is an error with the exit code that it ends the process with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// withCode gives an error its exit code, unless it has one already.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	return &exitError{code: code, err: err}
}

func usage(err error) error { return withCode(exitUsage, err) }

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	return codeOf(err)
}

// codeOf is the exit code of an error that no command has given one.
func codeOf(err error) int {
	switch state := ledger.SQLState(err); {
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case state == "42501" || strings.HasPrefix(state, "28"):
		return exitDenied
	case unreachable(err, state):
		return exitUnreachable
	case errors.Is(err, outbox.ErrConflict), state == outbox.StateSecondKey:
		return exitConflict
	case errors.Is(err, outbox.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	case errors.Is(err, outbox.ErrNotAllowed), errors.Is(err, outbox.ErrNoPayload), errors.Is(err, outbox.ErrOtherCell),
		errors.Is(err, outbox.ErrElsewhere), errors.Is(err, operator.ErrChanged), errors.Is(err, operator.ErrSentAgain):
		return exitNotAllowed
	case errors.Is(err, outbox.ErrEnqueueClosed):
		return exitClosed
	case errors.Is(err, outbox.ErrInvalid), errors.Is(err, outbox.ErrUnanswerable),
		errors.Is(err, railconfig.ErrBadFile), errors.Is(err, rails.ErrBadProfile):
		return exitUsage
	default:
		return exitFailure
	}
}

// unreachable reports whether no server was reached, it stopped, or it accepts no
// connection.
func unreachable(err error, state string) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok { // not net.Error: a missing file is one of those
		return true
	}
	return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") || state == "53300" ||
		state == "" && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded))
}

// report prints an error and, below it, what to do.
func report(w io.Writer, err error) {
	fmt.Fprintf(w, "railhead: %s\n", printable(eachOnce(withoutConnection(err.Error()))))
	if say := advice(err); say != "" {
		fmt.Fprintln(w, say)
	}
}

var (
	connection = regexp.MustCompile("(?s)cannot parse `.*`: ")
	quoted     = regexp.MustCompile(`(?s)"[^"]*"`)
)

// withoutConnection is a text without the connection string that could not be read, and what is quoted of it: where it
// is broken, the driver can't know which part is the password.
func withoutConnection(text string) string {
	at := connection.FindStringIndex(text)
	if at == nil {
		return text
	}
	return text[:at[0]] + "it can't be read: " + quoted.ReplaceAllString(text[at[1]:], `"..."`)
}

// eachOnce removes tabs and repeated lines from an error: a connection that was tried
// with TLS and without fails twice with the same text.
func eachOnce(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimLeft(strings.TrimRight(line, " \t\r\n"), "\t"), "\t", " ")
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// advice is the next step after an error of the server that does not name it.
func advice(err error) string {
	if blocked, ok := errors.AsType[*operator.BlockedError](err); ok {
		return blockedAdvice(blocked)
	}
	switch state := ledger.SQLState(err); {
	case errors.Is(err, outbox.ErrCommitUnknown): // also where the server can't be reached any more
		return lostAdvice(err)
	case errors.Is(err, operator.ErrChanged), errors.Is(err, operator.ErrSentAgain):
		return "Look at it again: railhead payment show ID. If the act is still right by what that prints, repeat it with " +
			"--row\nand the number of its last row."
	case state == "42501" && isAdministrators(err):
		return administratorNeeded
	case state == "42501":
		return "The login may not do this: " + strings.Replace(service.DeniedSays, ", or", ",\nor", 1) + "."
	case strings.HasPrefix(state, "28"):
		return "The server refuses this login: check its name and password in the connection string."
	case state == "3F000" || state == "42P01" || state == "42883":
		return "The cell does not exist, or is older than this build: check --cell, then run railhead migrate up\n" +
			"and railhead roles apply."
	case errors.Is(err, outbox.ErrReadOnly): // it says what to do
		return ""
	default:
		return serverAdvice(err, state)
	}
}

// serverAdvice is the next step where the server, or a pooler before it, can't be worked with now.
func serverAdvice(err error, state string) string {
	switch {
	case state == "42P05" || state == "26000":
		return "A pooler gives the sessions of the server to several clients: connect directly, or, with any login but\n" +
			"the administrator's, add default_query_exec_mode=cache_describe to the connection string."
	case state == "08P01" && strings.Contains(err.Error(), "unsupported startup parameter"): // PgBouncer's own words
		return "A pooler refuses a parameter of the session: connect directly, not through PgBouncer."
	case state == "53300":
		return "The server runs, and has no connection left for this login: end sessions that are not needed " +
			"(pg_stat_activity),\nor raise the limit that the message names."
	case state == "57P03":
		return "The server starts or stops, or a standby is not ready yet: run the same command again later."
	case state == "57P01" || state == "57P02" || state == "57P05":
		return "The server ended the session: see its log, and run the same command again."
	case state == "57P04":
		return "The database was dropped: check the connection string (railhead help environment)."
	case exitCode(err) == exitUnreachable:
		return "Check that the server runs and that the connection string leads to it (railhead help environment)."
	default:
		return ""
	}
}

// administratorNeeded is what to do where the login of an administrator's command may not do it.
const administratorNeeded = "RAILHEAD_ADMIN_URL has to lead to a superuser, or to an administrator, which railhead " +
	"roles apply makes of a\nlogin with CREATEROLE (docs/operations.md#without-a-superuser). Where neither may be used " +
	"over the network, a database\nadministrator runs the command on the server, or what railhead roles sql and " +
	"railhead migrate sql print."

// administrators is an error of a command that connects with RAILHEAD_ADMIN_URL.
type administrators struct{ error }

func (a *administrators) Unwrap() error { return a.error }

func isAdministrators(err error) bool {
	_, is := errors.AsType[*administrators](err)
	return is
}

// asAdministrators marks an error of a command that connects with RAILHEAD_ADMIN_URL.
func asAdministrators(err error) error {
	if err == nil {
		return nil
	}
	return &administrators{err}
}

// What to do where it is not known whether a command was done.
const (
	enqueueAgain    = "Run the same command again: the same ids with the same content never make a second instruction."
	repeatOnPayment = "It may have been done. Run the same command again: only exit code 0, or a refusal, holds after a " +
		"failover too.\nrailhead payment show ID and railhead log may show what no standby has."
	repeatAct = "It may have been done. Run the same command again: only exit code 0, or a refusal, holds after a " +
		"failover too.\nrailhead log and railhead status may show what no standby has."
	completes = "It may have been done. Run the same command again: it completes what was broken off, and what is in " +
		"place stays."
	tokenUnseen = "A token may be in force that was not shown. Look at railhead token list: revoke it before you create " +
		"another one."
)

// lostCommit is an error with the advice for an act that may have been done.
type lostCommit struct {
	err error
	say string
}

func (e *lostCommit) Error() string { return e.err.Error() }
func (e *lostCommit) Unwrap() error { return e.err }

// ifLost gives an error that leaves open whether a commit was made its advice, unless it has one already.
func ifLost(say string, err error) error {
	if _, has := errors.AsType[*lostCommit](err); has || !errors.Is(err, outbox.ErrCommitUnknown) {
		return err
	}
	return &lostCommit{err, say}
}

func lostAdvice(err error) string {
	if lost, ok := errors.AsType[*lostCommit](err); ok {
		return lost.say
	}
	return enqueueAgain
}

// blockedAdvice says how an operator ends another session's open transaction.
func blockedAdvice(blocked *operator.BlockedError) string {
	var end strings.Builder
	end.WriteString("End its transaction")
	for _, blocker := range blocked.Blockers {
		if blocker.PID != 0 {
			fmt.Fprintf(&end, ", or have a superuser run SELECT pg_terminate_backend(%d)", blocker.PID)
		}
	}
	return end.String() + ".\nThen run the same command again. A pause that waits stops nothing: if payments must stop " +
		"now, stop the relayers."
}

// exitCodesTopic is railhead help exit-codes.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean",
		Long: `Exit codes:

  0    done
  1    anything not named below
  2    the command line, the environment, a file or an instruction is wrong: repeating it changes nothing
  3    no such instruction, rail or file
  4    the login may not do this
  5    the same instruction id and key were used with other content, or the instruction is there under another key
  6    the database can't be reached
  7    some items were refused, the others went in
  8    a proof or a comparison failed, or a proof that was asked for did not run
  9    the state of the instruction does not allow the act; the message says why and what does
  10   an operator has closed enqueue: nothing was stored; run the same command again later
  130  stopped by a signal`,
	}
}
