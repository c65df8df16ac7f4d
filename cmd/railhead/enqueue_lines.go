package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// lineBytesMax bounds a line: the largest payload that any cell may allow, twice.
const lineBytesMax = 2 << 20

// inputLine is one line of a file: an instruction, or the fault that it has.
type inputLine struct {
	no    int // from 1
	in    payment.Instruction
	fault *outbox.Fault
}

// lineReader reads instructions line by line. It skips blank lines.
type lineReader struct {
	from *bufio.Reader
	no   int
}

func newLineReader(from io.Reader) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(from, 64<<10)}
}

// next returns the next line, or io.EOF.
func (r *lineReader) next() (inputLine, error) {
	for {
		text, tooLong, err := r.read()
		if err != nil {
			return inputLine{}, err
		}
		r.no++
		if r.no == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		line := inputLine{no: r.no}
		switch {
		case tooLong:
			line.fault = &outbox.Fault{SQLState: outbox.StateTooLarge,
				Message: fmt.Sprintf("the line is longer than %d bytes", lineBytesMax)}
			return line, nil
		case len(bytes.TrimSpace(text)) == 0:
			continue
		}
		line.in, err = parseLine(text)
		if err != nil {
			line.fault = &outbox.Fault{SQLState: outbox.StateInvalid, Message: err.Error()}
		}
		return line, nil
	}
}

// read returns one line without its end. It discards a line that is too long up to its
// end, so that the next read begins with a line.
func (r *lineReader) read() (text []byte, tooLong bool, err error) {
	for {
		part, err := r.from.ReadSlice('\n')
		if tooLong = tooLong || len(text)+len(part) > lineBytesMax; tooLong {
			text = nil
		} else {
			text = append(text, part...)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(text, []byte("\n")), tooLong, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(text) > 0 || tooLong):
			return text, tooLong, nil
		default:
			return nil, false, err
		}
	}
}

// fieldNames are the arguments of enqueue_payment_outbox.
func fieldNames() []string {
	return []string{
		"instruction_id", "participant_id", "idempotency_key", "rail_type", "payload",
		"not_before", "expires_at", "priority", "headers", "send_once",
	}
}

// parseLine reads one JSON object strictly: no field twice, at any depth, none
// that the SQL function does not have, in exactly its spelling. No error holds a
// value of the line.
func parseLine(text []byte) (payment.Instruction, error) {
	var in payment.Instruction
	if err := payment.CheckJSON(text); err != nil {
		return in, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return in, errors.New("the line must be a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(fieldNames(), name) {
			return in, fmt.Errorf("unknown field %q", bounded(name, 64))
		}
	}
	var priority *int
	var notBefore, expires *string
	into := map[string]any{
		"instruction_id": &in.InstructionID, "participant_id": &in.ParticipantID,
		"idempotency_key": &in.IdempotencyKey, "rail_type": &in.RailType,
		"not_before": &notBefore, "expires_at": &expires, "priority": &priority, "headers": &in.Headers,
		"send_once": &in.SendOnce,
	}
	for _, name := range fieldNames() {
		value, there := fields[name]
		if !there || string(value) == "null" {
			continue
		}
		if name == "payload" {
			in.Payload = value
			continue
		}
		if err := json.Unmarshal(value, into[name]); err != nil {
			return in, fmt.Errorf("%s must be %s", name, kindOf(name))
		}
	}
	var err error
	if notBefore != nil {
		if in.NotBefore, err = parseTime("not_before", *notBefore); err != nil {
			return in, err
		}
	}
	if expires != nil {
		if in.ExpiresAt, err = parseTime("expires_at", *expires); err != nil {
			return in, err
		}
	}
	if priority != nil {
		in.Priority, err = payment.PriorityOf(*priority)
	}
	return in, err
}

func kindOf(name string) string {
	switch name {
	case "priority":
		return "0 (urgent), 1 (normal) or 2 (bulk)"
	case "send_once":
		return "true or false"
	case "headers":
		return "an object of strings"
	default:
		return "a string"
	}
}

// resultLine is the result of one instruction. Its fields are part of the
// command's contract.
type resultLine struct {
	Line          int        `json:"line,omitempty"`
	Result        string     `json:"result"` // enqueued, replayed or refused
	InstructionID string     `json:"instruction_id,omitempty"`
	OutboxID      string     `json:"outbox_id,omitempty"`
	SequenceID    int64      `json:"sequence_id,omitempty"`
	CreatedAt     *time.Time `json:"created_at,omitempty"`
	State         string     `json:"state,omitempty"`
	Differs       []string   `json:"differs,omitempty"` // the fields in which the first call differs; its values hold
	SQLState      string     `json:"sqlstate,omitempty"`
	Message       string     `json:"message,omitempty"`
	Hint          string     `json:"hint,omitempty"`
}

func lineResult(line int, in payment.Instruction, r outbox.ReceiptOrFault) resultLine {
	result := resultLine{Line: line, InstructionID: bounded(in.InstructionID, 128), Result: "enqueued"}
	switch {
	case r.Fault != nil:
		result.Result, result.SQLState, result.Message, result.Hint = "refused", r.Fault.SQLState, r.Fault.Message,
			r.Fault.Hint
		return result
	case r.Receipt.Replayed:
		result.Result = "replayed"
	}
	created := r.Receipt.CreatedAt.UTC()
	result.OutboxID, result.SequenceID, result.CreatedAt, result.State, result.Differs =
		r.Receipt.OutboxID.String(), r.Receipt.SequenceID, &created, r.Receipt.State, r.Receipt.Differs
	return result
}

func (r resultLine) text() string {
	line := ""
	if r.Line > 0 {
		line = fmt.Sprintf("%d\t", r.Line)
	}
	if r.SQLState != "" {
		return fmt.Sprintf("%s%s\t%s\t%s\t%s", line, r.Result, orDash(oneLine(r.InstructionID)), r.SQLState,
			oneLine(r.Message))
	}
	text := fmt.Sprintf("%s%s\t%s\t%s\t%d\t%s", line, r.Result, oneLine(r.InstructionID), r.OutboxID, r.SequenceID,
		orDash(r.State))
	if len(r.Differs) > 0 {
		text += "\tnot changed, the first call's values hold: " + strings.Join(r.Differs, ", ")
	}
	return text
}
