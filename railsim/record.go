package railsim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Kind is what a ledger record states about a payment.
type Kind string

// The three kinds of ledger record. Only Executed moved money.
const (
	// Accepted: taken in provisional mode; a record of one of the other kinds with the same ID follows.
	Accepted Kind = "ACCEPTED"
	// Executed: the money moved, once, by exactly this record.
	Executed Kind = "EXECUTED"
	// Refused: no money moved, for the reason in Code.
	Refused Kind = "REFUSED"
)

// Record is one line of the ledger file: a fact that was on disk before any caller got an answer
// that rests on it.
type Record struct {
	// Seq numbers the lines of one file 1, 2, 3, ... without a gap.
	Seq int64 `json:"seq"`
	// Kind is what happened.
	Kind Kind `json:"kind"`
	// ID is the bank's own reference of the payment. An ACCEPTED record and the record that settles it share it.
	ID string `json:"id"`
	// Key is the Idempotency-Key as received.
	Key string `json:"key"`
	// Reference is the client's own reference as received.
	Reference string `json:"reference"`
	// Amount is a decimal string with exactly the digits of its currency, "10.50" or "500".
	Amount string `json:"amount"`
	// Currency is three capital letters.
	Currency string `json:"currency"`
	// Debtor and Creditor are account numbers.
	Debtor   string `json:"debtor"`
	Creditor string `json:"creditor"`
	// Code and Message give the ISO 20022 reason of a refusal; empty otherwise.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Time is when the record was made, by the bank's clock, in UTC.
	Time time.Time `json:"time"`
	// BodySHA256 is the lower-case hex digest of the request body exactly as received.
	BodySHA256 string `json:"body_sha256"`
}

// maxLine bounds one line of a ledger file, in bytes. It is far above what the largest accepted request can make.
const maxLine = 1 << 20

// ReadLedger reads a whole ledger file, of a bank that is running, stopped or killed. A last line without its
// newline is a write that no answer depended on: it is left out. Any other damage is an error that names the line.
func ReadLedger(path string) ([]Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	defer f.Close()
	records := []Record{}
	_, err = scanLedger(f, func(r Record) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", path, err)
	}
	return records, nil
}

// scanLedger calls add for every whole line and returns the length in bytes of what whole lines take.
func scanLedger(src io.Reader, add func(Record) error) (int64, error) {
	in := bufio.NewReaderSize(src, 1<<16)
	var whole, seq int64
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		seq++
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return whole, fmt.Errorf("line %d: %w", seq, err)
		}
		if r.Seq != seq {
			return whole, fmt.Errorf("line %d: it says seq %d", seq, r.Seq)
		}
		if err := add(r); err != nil {
			return whole, fmt.Errorf("line %d: %w", seq, err)
		}
		whole += int64(len(line))
	}
}

// readLine returns one line with its newline, or io.EOF at the end and at a torn last line.
func readLine(in *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return part, nil
		case err == nil:
			return append(long, part...), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		long = append(long, part...)
		if len(long) > maxLine {
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
	}
}

// encodeRecord renders a record as one line with its newline.
func encodeRecord(r Record) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encode record %s: %w", r.ID, err)
	}
	return buf.Bytes(), nil
}
