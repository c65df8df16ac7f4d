package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// readLine is one line, or the reason why there is none.
type readLine struct {
	text []byte // nil: the line is too long
	err  error
}

var errTooMuch = errors.New("too many lines or bytes")

// read reads lines until the body ends, a bound is reached or no byte comes for too long. A broken
// connection also ends the request's context, so its error may not be sent. Of a line that is too long
// nothing is kept: it is refused by itself, and those behind it are read.
func (b *batching) read(ctx context.Context, body io.Reader, lines chan<- readLine) {
	defer close(lines)
	reader := bufio.NewReaderSize(body, 16<<10)
	bytesLeft := batchBytesMax
	// The handler ends the context, and then the reader by a deadline: one that is set here after it is noticed.
	waits := func() error {
		patience := min(b.api.config.IdleMax, time.Until(b.until))
		b.control.SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // without deadlines the server has its own
		return ctx.Err()
	}
	for n := 0; ; {
		if waits() != nil {
			return
		}
		text, size, err := oneLine(reader, int(b.api.config.BodyBytesMax), bytesLeft, waits)
		bytesLeft -= size
		if n++; n > batchLinesMax && err == nil {
			// Blank lines count too, or they would occupy the place without end.
			text, err = []byte{}, errTooMuch
		}
		// One that is too long is refused before the batch ends by it, or a caller would send it again and again.
		if text == nil && (err == nil || errors.Is(err, errTooMuch)) || err == nil && len(text) > 0 {
			select {
			case lines <- readLine{text: text}:
			case <-ctx.Done():
				return
			}
		}
		if err == nil {
			continue
		}
		select {
		case lines <- readLine{err: err}:
		case <-ctx.Done():
		}
		return
	}
}

// oneLine reads a line, and returns its size. Its text is empty if it is blank, and nil if it has more than the most
// bytes: then the rest of it is read and dropped, within those that are left, and waits is called before each piece.
// The last line may lack the line end.
func oneLine(reader *bufio.Reader, most, left int, waits func() error) (text []byte, size int, err error) {
	text = []byte{}
	for blank := true; ; {
		part, err := reader.ReadSlice('\n')
		size += len(part)
		blank = blank && len(bytes.TrimSpace(part)) == 0
		switch {
		case blank && size > most:
			text = text[:0] // of blanks alone too, no more than most is kept
		case size > most:
			text = nil
		default:
			text = append(text, part...)
		}
		switch {
		case size > left:
			return text, size, errTooMuch
		case errors.Is(err, bufio.ErrBufferFull):
			if size > most {
				if err := waits(); err != nil {
					return nil, size, err
				}
			}
			continue
		case errors.Is(err, io.EOF) && !blank:
			err = nil // the next call returns it
		}
		if blank {
			text = text[:0]
		}
		return text, size, err
	}
}

// gather waits for a line, and adds those that follow closely.
func (b *batching) gather(lines <-chan readLine) (chunk [][]byte, err error) {
	size := 0
	var lull <-chan time.Time
	for len(chunk) < chunkLinesMax && size < chunkBytesMax {
		select {
		case next, more := <-lines:
			if !more {
				return chunk, io.ErrUnexpectedEOF // the connection broke
			}
			if next.err != nil {
				return chunk, next.err
			}
			chunk, size = append(chunk, next.text), size+len(next.text)
		case <-lull:
			return chunk, nil
		case <-b.api.draining.Done():
			return chunk, context.Canceled
		}
		lull = time.After(chunkLull)
	}
	return chunk, nil
}
