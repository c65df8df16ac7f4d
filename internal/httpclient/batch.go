package httpclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// line is one line of the answer to a batch.
type line struct {
	Line        int      `json:"line"`
	Status      int      `json:"status"`
	Instruction *shown   `json:"instruction"`
	Problem     *problem `json:"problem"`
	End         bool     `json:"end"`
	Lines       int      `json:"lines"` // in the end line: how many were read; absent: none
}

// EnqueueBatch enqueues many instructions independently, and returns one result for each, in their
// order. Lines whose result is not known, that were not read, or that may be accepted later, are sent
// again, until Config.Attempts in a row have ended no line. A line that is refused for now, with a code, then has that
// refusal as its fault. An error means that some of them got no answer. It is outbox.ErrCommitUnknown, and no error
// that says that nothing was stored, if any line is or may be stored.
func (h *HTTP) EnqueueBatch(ctx context.Context, all []payment.Instruction) ([]outbox.ReceiptOrFault, error) {
	if len(all) > batchItemMax {
		return nil, fmt.Errorf("a batch of %d: %w", len(all), &outbox.Fault{
			SQLState: outbox.StateTooLarge, Message: fmt.Sprintf("a batch holds more than %d items", batchItemMax),
			Hint: "Send it in parts.",
		})
	}
	results := make([]outbox.ReceiptOrFault, len(all))
	var open []int
	texts := make([][]byte, len(all))
	for n, in := range all {
		body := bodyOf(in)
		body.IdempotencyKey = in.IdempotencyKey
		var err error
		if texts[n], err = json.Marshal(body); err != nil {
			results[n].Fault = notJSON(in)
			continue
		}
		open = append(open, n)
	}
	var last error
	doubtful := make([]bool, len(all)) // some attempt may have enqueued it
	taken := false                     // some line is stored: nil results must not be taken for nothing
	ended := func(err error) error {
		return inDoubt(taken || slices.ContainsFunc(open, func(n int) bool { return doubtful[n] }), err)
	}
	for attempt, vain := 0, 0; len(open) > 0; attempt++ {
		if vain == h.config.Attempts {
			if !slices.ContainsFunc(open, func(n int) bool { return doubtful[n] || results[n].Fault == nil }) {
				break // no line is without an answer
			}
			return nil, fmt.Errorf("a batch of %d: %d without an answer: %w", len(all), len(open), ended(last))
		}
		if attempt > 0 {
			if err := h.pause(ctx, max(vain, 1), last); err != nil {
				return nil, errors.Join(err, ended(last))
			}
		}
		said, done, err := h.sendBatch(ctx, all, texts, open, results)
		var left []int
		taken = taken || slices.Contains(said, lineTaken)
		for at, n := range open {
			if said[at] == lineTaken || said[at] == lineRefused && !doubtful[n] {
				continue
			}
			if said[at] == lineRefused { // an earlier attempt may have enqueued it nevertheless
				err = inDoubt(true, results[n].Fault)
			}
			doubtful[n] = doubtful[n] || said[at] == lineUnknown
			left = append(left, n)
		}
		if vain++; len(left) < len(open) {
			vain = 0 // it goes on, such as under a quota
		}
		open = left
		if done {
			return nil, fmt.Errorf("a batch of %d: %w", len(all), ended(err))
		}
		last = err
	}
	return results, nil
}

// lineSaid is what an answer to a batch states about one line.
type lineSaid int

const (
	lineUnknown lineSaid = iota // nothing, or that the line may be stored
	lineNone                    // the line was not stored, and may be later
	lineRefused                 // the line is refused
	lineTaken
)

// sendBatch sends the open lines. It returns what the answer states about each, and whether the
// answer is final. The result of a line that may be stored later is the refusal with which it was
// answered last, if that has a code.
func (h *HTTP) sendBatch(
	ctx context.Context, ins []payment.Instruction, texts [][]byte, open []int, results []outbox.ReceiptOrFault,
) (all []lineSaid, done bool, err error) {
	all = make([]lineSaid, len(open))
	var body bytes.Buffer
	for _, n := range open {
		body.Write(texts[n])
		body.WriteByte('\n')
	}
	trying, cancel := context.WithTimeout(ctx, h.config.Timeout+time.Duration(len(open))*20*time.Millisecond)
	defer cancel()
	err = fmt.Errorf("%w: the answer was cut", outbox.ErrCommitUnknown)
	response, sendErr := h.send(trying, http.MethodPost, "/v1/instructions/batch",
		http.Header{"Content-Type": {"application/x-ndjson"}}, &body)
	switch {
	case errors.Is(sendErr, errNotSent):
		return slices.Repeat([]lineSaid{lineNone}, len(open)), ctx.Err() != nil, sendErr
	case sendErr != nil:
		return all, ctx.Err() != nil, fmt.Errorf("%w: no answer: %w", outbox.ErrCommitUnknown, sendErr)
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, answerMax)) // what was cut is no problem of the API
		done, err = response.refusal(http.MethodPost, text)
		if !errors.Is(err, outbox.ErrCommitUnknown) {
			for at := range all {
				all[at] = lineNone
			}
		}
		return all, done, err
	}
	after, whole := 0, false
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		var said line
		if json.Unmarshal(lines.Bytes(), &said) != nil {
			continue
		}
		if said.End && (said.refuses() || said.Problem == nil && said.Status == http.StatusOK) {
			if err = said.ends(all, err); said.Problem != nil {
				after = max(after, said.Problem.After)
			}
			whole = true
			break
		}
		if said.Line < 1 || said.Line > len(open) {
			continue
		}
		at := said.Line - 1
		switch {
		case said.Instruction != nil && said.Status >= 200 && said.Status < 300:
			in := ins[open[at]]
			key := payment.Key{InstructionID: in.InstructionID, IdempotencyKey: in.IdempotencyKey}
			if said.Instruction.whole() == nil && said.Instruction.of(in.ParticipantID, key) == nil {
				all[at], results[open[at]] = lineTaken, outbox.ReceiptOrFault{Receipt: said.Instruction.receipt()}
			}
		case !said.refuses(): // it is not the API's word
		case said.Status < 500 && said.Status != http.StatusTooManyRequests:
			fault, ok := errors.AsType[*outbox.Fault](said.Problem.errOf(http.MethodPost, said.Status))
			if !ok {
				fault = &outbox.Fault{SQLState: outbox.StateInvalid, Message: said.Problem.Title}
			}
			all[at], results[open[at]] = lineRefused, outbox.ReceiptOrFault{Fault: fault}
		default:
			after = max(after, said.Problem.After)
			results[open[at]].Fault = nil
			if err = said.Problem.errOf(http.MethodPost, said.Status); !errors.Is(err, outbox.ErrCommitUnknown) {
				all[at] = lineNone
				if fault, ok := errors.AsType[*outbox.Fault](err); ok && said.Problem.Commit == "none" {
					results[open[at]].Fault = fault
				}
			}
		}
	}
	if !whole {
		response.leave()
	}
	if response.again { // over another connection what is not stored now may have been stored before
		for at := range all {
			if all[at] != lineTaken {
				all[at], err = lineUnknown, inDoubt(true, err)
			}
		}
	}
	return all, false, inSeconds(err, after)
}

// refuses reports whether the line has a problem of the API.
func (l line) refuses() bool { return l.Status >= 400 && l.Problem != nil && l.Problem.ofAPI() }

// ends notes what the end line states: the lines behind those that it counts were not read, so this call has not
// stored them. It returns the error of the call, which was err so far. That of unread lines is never a refusal,
// whatever ended the batch: it would be taken for one of them, and of those before them.
func (l line) ends(all []lineSaid, err error) error {
	for at := max(l.Lines, 0); at < len(all); at++ {
		if all[at] == lineUnknown {
			all[at] = lineNone
			err = fmt.Errorf("%w: the API has not read the whole batch", outbox.ErrBusy)
			if l.Problem != nil {
				err = fmt.Errorf("%w: %s", err, l.Problem.Title)
			}
		}
	}
	return err
}
