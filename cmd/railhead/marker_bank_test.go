package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
)

// markedBank is a bank that repeats everything that it received, in every way in which a
// bank can be wrong. The instruction's id selects the way.
type markedBank struct {
	mu   sync.Mutex
	sent map[string]string // bodies by rail key
}

func (b *markedBank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key, how := r.Header.Get("Idempotency-Key"), strings.Split(filepath.Base(r.URL.Path), "-")[0]
	var headers bytes.Buffer
	r.Header.Write(&headers)
	b.mu.Lock()
	b.sent[key] = string(body)
	echo := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, b.sent[filepath.Base(r.URL.Path)]+string(body)+headers.String())
	b.mu.Unlock()
	say := func(status int, word, code string) {
		w.Header().Set("X-Echo", echo)
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status": %q, "id": "REF-%s", "code": %q, "message": %q, "key": %q, "debtor": %q}`, word, key, code, echo, key, echo)
	}
	raw := func(text string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		io.WriteString(conn, text)
		conn.Close()
	}
	switch how {
	case "accept":
		say(201, "OK", "")
	case "refuse":
		say(422, "NO", "AC04")
	case "unmapped":
		say(200, marker+"-debtor-name", "")
	case "code":
		say(422, "NO", marker+"-debtor-name")
	case "garbage":
		io.WriteString(w, echo)
	case "broken":
		fmt.Fprintf(w, `{"status": "OK", "id": %q, `, echo)
	case "busy":
		say(503, "", "")
	case "error":
		say(500, "", "")
	case "hang":
		<-r.Context().Done()
	case "drop":
		raw("")
	case "malformed":
		raw(echo + "\r\n\r\n")
	case "statusline":
		raw("HTTP/1.1 " + echo + "\r\n\r\n")
	case "header":
		raw("HTTP/1.1 200 OK\r\n" + echo + "\r\n\r\n")
	case "length":
		raw("HTTP/1.1 200 OK\r\nContent-Length: " + marker + "\r\n\r\n")
	case "cut":
		raw("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + echo)
	case "redirect":
		w.Header().Set("Location", "http://"+marker+".invalid/"+marker)
		say(307, "", "")
	case "other":
		fmt.Fprintf(w, `{"status": "OK", "id": "REF", "key": %q, "message": %q}`, marker, echo)
	case "later":
		say(202, "P", "")
	case "locked":
		say(401, "", "")
	default: // an inquiry, by the rail key
		say(200, marker+"-debtor-name", "")
	}
}

// markedRail is a rail that leads to the bank, with secrets wherever one can be.
func markedRail(name, profile, url, more string) string {
	return `
  - rail_type: ` + name + `
    adapter: http
    profile: ` + profile + `
    http:
      base_url: ` + url + `
      allow_plaintext: true
      allow_loopback: true
      bearer: env:MARKED_BEARER
      headers: {X-Api-Key: env:MARKED_HEADER}
      signature: {secret: env:MARKED_HMAC, header: X-Signature, timestamp_header: X-Time}
      send:
        path: /pay/{instruction_id}
        idempotency_header: Idempotency-Key
        body: {key: rail_key, amount: amount.decimal, currency: currency, name: payload.debtor.name, account: payload.debtor.account, text: "payload.text?"}
        response: {status: status, statuses: {OK: OK, P: P, NO: CODE}, reference: id, code: code, message: message, echo: key}` + more
}

const (
	markedInquiry = `
      inquiry:
        path: /ask/{rail_key}
        response: {status: status, statuses: {EXECUTED: EXECUTED}, reference: id, code: code, message: message, echo: key}`
	markedCallback = `
    callback: {secrets: ["env:MARKED_CALLBACK"], key: key, status: status, statuses: {EXECUTED: EXECUTED, REFUSED: REFUSED}, reference: id, code: code}`
)

// markedProfile is a rail of short times.
func markedProfile(facts string) string {
	return `{"acceptance": "FINAL", "id_after_refusal": "SAME", "codes": {"table": "iso20022"}, "concurrency": 64, "breaker": {"minimum_requests": 1000},
		"retry": {"max_sends": 2, "base": "20ms", "cap": "50ms"},
		"timeouts": {"connect": "500ms", "tls": "100ms", "write": "300ms", "response_header": "700ms", "body": "500ms"}` + facts + `}`
}
