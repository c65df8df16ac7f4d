package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Bounds of one transaction of a file.
const (
	batchLinesMax = 500
	batchBytesMax = 8 << 20
)

func enqueueFile(cmd *cobra.Command, name string) error {
	from := cmd.InOrStdin()
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("reading instructions: %w", err)
		}
		defer opened.Close()
		from = opened
	}
	return withIngest(cmd.Context(), func(ingest *ingest.Ingest) error {
		load := &fileLoad{ingest: ingest, out: outputOf(cmd), notes: cmd.ErrOrStderr(),
			lines: newLineReader(leaving{cmd.Context(), from}), said: time.Now(), held: map[string]*outbox.Fault{}}
		return load.run(cmd.Context())
	})
}

// leaving is a reader whose Read returns when the context ends, although the read of a
// terminal or a pipe may never return. The process is about to end then.
type leaving struct {
	ctx  context.Context
	from io.Reader
}

func (l leaving) Read(p []byte) (int, error) {
	type answer struct {
		n   int
		err error
	}
	own := make([]byte, len(p)) // a read that is abandoned must not write into p
	done := make(chan answer, 1)
	go func() {
		n, err := l.from.Read(own)
		done <- answer{n, err}
	}()
	select {
	case a := <-done:
		return copy(p, own[:a.n]), a.err
	case <-l.ctx.Done():
		return 0, context.Cause(l.ctx)
	}
}

// fileLoad enqueues the lines of a file.
type fileLoad struct {
	ingest *ingest.Ingest
	out    output
	notes  io.Writer
	lines  *lineReader
	said   time.Time                // when progress was last reported
	held   map[string]*outbox.Fault // of the first line that this cell did not take, by participant

	enqueued, replayed, refused int
	closed                      int // of the refused, those that are valid: enqueue is closed for them
	foreign                     int // of the refused, those whose participants this cell does not take now
	done                        int // the last line whose result is written
}

// run enqueues one batch after another. When it ends, the lines up to done have their
// results, and the others have not been sent, except for one batch of unknown result.
func (l *fileLoad) run(ctx context.Context) error {
	for {
		batch, err := l.read(ctx)
		if err != nil && !errors.Is(err, io.EOF) {
			return l.stopped(err)
		}
		if len(batch) > 0 {
			if err := l.send(ctx, batch); err != nil {
				return l.stopped(err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if time.Since(l.said) >= sayEvery {
			l.said = time.Now()
			l.tell("so far")
		}
	}
	l.tell("done")
	return withCode(exitPartial, l.left())
}

// left is an error that says what to do about the lines that were refused; nil: there are none.
func (l *fileLoad) left() error {
	if l.refused == 0 {
		return nil
	}
	const again = "the enqueued ones are not changed"
	wrong := l.refused - l.closed - l.foreign
	switch {
	case wrong == l.refused:
		return fmt.Errorf("%d lines were refused; correct them and run the file again: %s", l.refused, again)
	case l.closed == l.refused:
		return fmt.Errorf("%d lines were refused because enqueue is closed for them (%s); run the file again once it is "+
			"open: %s", l.refused, outbox.StateEnqueueClosed, again)
	case l.foreign == l.refused:
		return fmt.Errorf("%d lines were refused because this cell does not take their participants now (%s); run the file "+
			"again unchanged, with the connection string that they name or later: %s", l.refused, outbox.StateOtherCell, again)
	}
	parts := []string{fmt.Sprintf("%d lines were refused; correct %d of them", l.refused, wrong)}
	if l.closed > 0 {
		parts = append(parts, fmt.Sprintf("Enqueue is closed for the other %d (%s): run the file again once it is open",
			l.closed, outbox.StateEnqueueClosed))
	}
	if l.foreign > 0 {
		parts = append(parts, fmt.Sprintf("This cell does not take the participants of %d now (%s): run the file again "+
			"unchanged, with the connection string that they name or later", l.foreign, outbox.StateOtherCell))
	}
	return fmt.Errorf("%s: %s", strings.Join(parts, ". "), again)
}

func (l *fileLoad) tell(how string) {
	fmt.Fprintf(l.notes, "%s: line %d, %d enqueued, %d replayed, %d refused\n", how, l.done, l.enqueued, l.replayed,
		l.refused)
}

func (l *fileLoad) stopped(err error) error {
	l.tell("stopped")
	next := "Run the same command again: the enqueued lines are not changed"
	if errors.Is(err, outbox.ErrCommitUnknown) {
		next = "Lines behind it may be stored all the same. " + next
	}
	return fmt.Errorf("after line %d: %w\n%s", l.done, err, next)
}

// read reads the lines of the next transaction. It returns io.EOF with the last of them.
func (l *fileLoad) read(ctx context.Context) ([]inputLine, error) {
	var batch []inputLine
	for size := 0; len(batch) < batchLinesMax && size < batchBytesMax; {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		line, err := l.lines.next()
		if errors.Is(err, io.EOF) {
			return batch, err
		}
		if err != nil {
			return nil, fmt.Errorf("reading instructions: %w", err)
		}
		size += len(line.in.Payload)
		batch = append(batch, line)
	}
	return batch, nil
}

// send enqueues the valid lines of a batch and writes a result for every line.
func (l *fileLoad) send(ctx context.Context, batch []inputLine) error {
	var valid []payment.Instruction
	for _, line := range batch {
		if line.fault == nil {
			valid = append(valid, line.in)
		}
	}
	results, failed := l.enqueue(ctx, valid)
	for _, line := range batch {
		result := outbox.ReceiptOrFault{Fault: line.fault}
		if line.fault == nil {
			if len(results) == 0 {
				break
			}
			result, results = results[0], results[1:]
		}
		if err := l.write(lineResult(line.no, line.in, result)); err != nil {
			return errors.Join(err, failed)
		}
		l.done = line.no
	}
	return failed
}

// enqueue sends lines, except new ones of a participant of whom the cell did not take an earlier one: it may take the
// participant by now, and the earlier line is only sent when the file is run again. With an error it returns the
// results of the first lines, up to the first one that has none.
func (l *fileLoad) enqueue(ctx context.Context, valid []payment.Instruction) ([]outbox.ReceiptOrFault, error) {
	results, err := l.hold(ctx, valid)
	if err != nil {
		return nil, err
	}
	var free []payment.Instruction
	var from []int
	for n, in := range valid {
		if results[n].Fault == nil {
			free, from = append(free, in), append(from, n)
		}
	}
	answers, err := l.call(ctx, free)
	if len(answers) < len(free) {
		results = results[:from[len(answers)]]
	}
	for n, answer := range answers {
		results[from[n]] = answer
		if answer.Fault != nil && answer.Fault.SQLState == outbox.StateOtherCell {
			l.held[free[n].ParticipantID] = &outbox.Fault{SQLState: outbox.StateOtherCell,
				Hint:    "This call stored nothing of it. Repeat it with the same key and content, behind the earlier line.",
				Message: "an earlier line of the participant was not taken: this one was not tried, as it would come before it"}
		}
	}
	return results, err
}

// hold returns a fault for each line that is held. One that is stored already is sent: it is a repetition for good.
func (l *fileLoad) hold(ctx context.Context, valid []payment.Instruction) ([]outbox.ReceiptOrFault, error) {
	results := make([]outbox.ReceiptOrFault, len(valid))
	var keys []payment.Key
	var held []int
	for n, in := range valid {
		if l.held[in.ParticipantID] != nil {
			held = append(held, n)
			keys = append(keys, payment.Key{InstructionID: in.InstructionID, IdempotencyKey: in.IdempotencyKey})
		}
	}
	if len(keys) == 0 {
		return results, nil
	}
	var stored []*payment.Status
	err := withinCell(ctx, func(ctx context.Context) (err error) {
		stored, err = l.ingest.Statuses(ctx, keys)
		return err
	})
	if err != nil {
		return nil, err
	}
	for at, n := range held {
		if stored[at] == nil {
			results[n].Fault = l.held[valid[n].ParticipantID]
		}
	}
	return results, nil
}

// call repeats a batch whose commit is unknown, which can't make a second instruction, and halves one that is longer
// than this cell accepts. With an error it returns the results of the lines before those of unknown result.
func (l *fileLoad) call(ctx context.Context, free []payment.Instruction) ([]outbox.ReceiptOrFault, error) {
	const tries = 3
	var results []outbox.ReceiptOrFault
	var unknown error
	err := withinCell(ctx, func(ctx context.Context) (err error) {
		for range tries {
			results, err = l.ingest.EnqueueBatch(ctx, free)
			if !errors.Is(err, outbox.ErrCommitUnknown) {
				break
			}
			unknown = err
		}
		return err
	})
	if ledger.SQLState(err) != outbox.StateTooLarge || len(free) < 2 {
		return results, inDoubt(unknown, err)
	}
	first, err := l.enqueue(ctx, free[:len(free)/2])
	if err != nil {
		return first, inDoubt(unknown, err)
	}
	second, err := l.enqueue(ctx, free[len(free)/2:])
	return append(first, second...), inDoubt(unknown, err)
}

// inDoubt returns the error of a call whose attempts before the last one may have stored it, if one ended with unknown:
// that the last one stored nothing is then only text, so that callers do not branch on it. A signal stays one.
func inDoubt(unknown, last error) error {
	switch {
	case unknown == nil || last == nil || errors.Is(last, outbox.ErrCommitUnknown):
		return last
	case errors.Is(last, context.Canceled):
		return fmt.Errorf("%w\nThe last attempt: %w", unknown, last)
	default:
		//nolint:errorlint // on purpose
		return fmt.Errorf("%w\nThe last attempt: %v", unknown, last)
	}
}

func (l *fileLoad) write(result resultLine) error {
	switch result.Result {
	case "enqueued":
		l.enqueued++
	case "replayed":
		l.replayed++
	default:
		l.refused++
		switch result.SQLState {
		case outbox.StateEnqueueClosed:
			l.closed++
		case outbox.StateOtherCell:
			l.foreign++
		}
	}
	if l.out.json {
		return l.out.line(result)
	}
	return l.out.text("%s\n", result.text())
}
