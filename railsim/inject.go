package railsim

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// html is a page that a proxy in front of a bank might send.
const html = "<!DOCTYPE html>\n<html><head><title>Service</title></head><body><h1>Welcome</h1></body></html>\n"

// defaultBytes is the size of huge answers and bombs, in bytes.
const defaultBytes = 1 << 30

// writeAnswer sends an answer as it is.
func (b *Bank) writeAnswer(w http.ResponseWriter, a answer) {
	if a.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	writeJSON(w, a.status, a.reply)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBody(w, status, "application/json", append(body, '\n'))
}

// writeBody sends a complete body. It ignores a client that has left: the ledger is the truth.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// failBefore executes a _before fault, and reports whether act is one. No payment executes then.
func (b *Bank) failBefore(w http.ResponseWriter, r *http.Request, act Fault) bool {
	switch act.Kind {
	case StatusBefore:
		b.status(w, act, http.StatusInternalServerError)
	case RedirectBefore:
		redirect(w, act)
	case DropBefore:
		b.drop(w)
	case ResetBefore:
		b.reset(w)
	case HangBefore:
		b.hang(w, r, act)
	default:
		return false
	}
	return true
}

// failInquiry executes a fault that replaces the whole answer to an inquiry, and reports whether
// act is one.
func (b *Bank) failInquiry(w http.ResponseWriter, r *http.Request, act Fault) bool {
	switch act.Kind {
	case InquiryStatus:
		b.status(w, act, http.StatusServiceUnavailable)
	case InquiryDrop:
		b.drop(w)
	case InquiryHang:
		b.hang(w, r, act)
	case InquiryGarbage:
		writeBody(w, http.StatusOK, "text/html", []byte(html))
	default:
		return false
	}
	return true
}

// failAfter answers a decided payment, spoilt by the fault, or unchanged if act is of another kind.
func (b *Bank) failAfter(w http.ResponseWriter, r *http.Request, act Fault, a answer) {
	switch act.Kind {
	case DropAfter:
		b.drop(w)
	case RefuseDrop:
		if a.replayed { // it was new when the fault was drawn, and another send was decided first
			b.writeAnswer(w, a)
			return
		}
		b.drop(w)
	case ResetAfter:
		b.reset(w)
	case HangAfter:
		b.hang(w, r, act)
	case StatusAfter:
		b.status(w, act, http.StatusInternalServerError)
	case RedirectAfter:
		redirect(w, act)
	case HTMLAfter:
		writeBody(w, http.StatusOK, "text/html", []byte(html))
	case BadJSONAfter:
		writeBody(w, http.StatusOK, "application/json", []byte(`{"status":"EXECUTED","id":`))
	case EmptyAfter:
		writeBody(w, http.StatusOK, "application/json", nil)
	case WrongIDAfter:
		a.reply.ID = wrongID
		b.writeAnswer(w, a)
	case AnotherIDAfter:
		if n := parseID(a.reply.ID); n > 1 {
			a.reply.ID = formatID(n - 1)
		}
		b.writeAnswer(w, a)
	case WrongReferenceAfter:
		a.reply.Reference, a.reply.Key = other(a.reply.Reference), other(a.reply.Key)
		b.writeAnswer(w, a)
	case HugeAfter:
		huge(w, act)
	case GzipBombAfter:
		bomb(w, act)
	case TruncatedAfter, DripHeadersAfter, DripBodyAfter:
		b.raw(w, act, a)
	default:
		b.writeAnswer(w, a)
	}
}

func (b *Bank) status(w http.ResponseWriter, act Fault, otherwise int) {
	set(&act.Status, otherwise)
	set(&act.Code, "FAULT")
	if act.RetryAfterS > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(act.RetryAfterS))
	}
	if act.Plain {
		writeBody(w, act.Status, "text/html", []byte(html))
		return
	}
	a := problem(act.Status, act.Code, act.Message)
	set(&act.Word, a.reply.Status)
	a.reply.Status = act.Word
	b.writeAnswer(w, a)
}

func redirect(w http.ResponseWriter, act Fault) {
	set(&act.Status, http.StatusTemporaryRedirect)
	w.Header().Set("Location", act.URL)
	w.WriteHeader(act.Status)
}

// hang never answers. It ends, by closing the connection, when the client leaves, the bank closes, or time is up.
func (b *Bank) hang(w http.ResponseWriter, r *http.Request, act Fault) {
	limit := b.cfg.MaxHang
	if act.DelayMS > 0 {
		limit = act.delay()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-b.ctx.Done():
	}
	b.drop(w)
}

// huge streams one JSON document with a very long string.
func huge(w http.ResponseWriter, act Fault) {
	set(&act.Bytes, defaultBytes)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, `{"status":"EXECUTED","message":"`)
	if fill(w, act.Bytes) == nil {
		_, _ = io.WriteString(w, `"}`)
	}
}

// bomb streams the same, compressed about a thousandfold. A gzip stream may be a chain of members,
// so one block of it is compressed once and sent many times: a bomb costs the bank almost nothing.
func bomb(w http.ResponseWriter, act Fault) {
	set(&act.Bytes, defaultBytes)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(http.StatusOK)
	const size = 1 << 20
	block := zipped(bytes.Repeat([]byte("x"), size))
	_, err := w.Write(zipped([]byte(`{"status":"EXECUTED","message":"`)))
	for left := act.Bytes; left >= size && err == nil; left -= size {
		_, err = w.Write(block)
	}
	if err == nil {
		rest := append(bytes.Repeat([]byte("x"), int(act.Bytes%size)), `"}`...)
		_, _ = w.Write(zipped(rest))
	}
}

func zipped(plain []byte) []byte {
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	_, _ = zip.Write(plain) // a bytes.Buffer takes everything
	_ = zip.Close()
	return buf.Bytes()
}

// fill writes n times the letter x, until the client closes the connection.
func fill(w io.Writer, n int64) error {
	block := bytes.Repeat([]byte("x"), 64<<10)
	for n > 0 {
		k, err := w.Write(block[:min(n, int64(len(block)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// drop closes the connection without an answer.
func (b *Bank) drop(w http.ResponseWriter) {
	if conn, _, free := b.hijack(w); conn != nil {
		free()
	}
}

// reset closes the connection so that the client gets an RST instead of an orderly end.
func (b *Bank) reset(w http.ResponseWriter) {
	conn, _, free := b.hijack(w)
	if conn == nil {
		return
	}
	if tcp := tcpOf(conn); tcp != nil {
		if err := tcp.SetLinger(0); err != nil {
			b.log.Warn("reset degrades to a close", "error", err)
		}
		_ = tcp.Close() // under TLS: no close_notify either
	}
	free()
}

// raw sends the true answer over the bare connection: cut in half, or byte by byte.
func (b *Bank) raw(w http.ResponseWriter, act Fault, a answer) {
	body, err := json.Marshal(a.reply)
	if err != nil {
		b.drop(w)
		return
	}
	replayed := ""
	if a.replayed {
		replayed = "Idempotent-Replayed: true\r\n"
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\n"+
		"Content-Type: application/json\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n",
		a.status, http.StatusText(a.status), replayed, len(body))
	conn, out, free := b.hijack(w)
	if conn == nil {
		return
	}
	defer free()
	set(&act.DelayMS, 1000)
	switch act.Kind {
	case TruncatedAfter:
		_, _ = out.WriteString(head + string(body[:len(body)/2]))
		_ = out.Flush()
	case DripHeadersAfter:
		b.drip(out, head+string(body), act.delay())
	case DripBodyAfter:
		_, _ = out.WriteString(head)
		b.drip(out, string(body), act.delay())
	}
}

// drip writes a byte each interval until the client leaves, the bank closes, or Config.MaxHang is over.
func (b *Bank) drip(out *bufio.ReadWriter, text string, each time.Duration) {
	end := time.Now().Add(b.cfg.MaxHang)
	for c := range strings.SplitSeq(text, "") {
		if _, err := out.WriteString(c); err != nil || out.Flush() != nil {
			return
		}
		if !b.sleep(each) || time.Now().After(end) {
			return
		}
	}
}

// hijack takes the connection from the server. The function free closes it, as does Close of the
// bank. A nil connection means that it is already closed.
func (b *Bank) hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, func()) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, func() {}
	}
	stop := context.AfterFunc(b.ctx, func() { _ = conn.Close() })
	return conn, buffered, func() {
		stop()
		_ = conn.Close()
	}
}
