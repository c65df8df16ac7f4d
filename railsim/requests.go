package railsim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// Request is one request under /payments as the bank received it, whatever became of it.
type Request struct {
	// N numbers the requests of one life of the bank, from 1.
	N int64 `json:"n"`
	// Time is when its body had been read.
	Time time.Time `json:"time"`
	// Op is payment or inquiry.
	Op string `json:"op"`
	// Key and Reference are the client's own, ID is the bank's. An inquiry has one of them; a rejected
	// request may have none.
	Key       string `json:"key,omitempty"`
	Reference string `json:"reference,omitempty"`
	ID        string `json:"id,omitempty"`
	// BodySHA256 is the lower-case hex digest of the body exactly as received; empty for an inquiry.
	BodySHA256 string `json:"body_sha256,omitempty"`
	// Attempt counts the requests of this Op with this key (or reference or id, for inquiries by those), from 1.
	// 0 if it was rejected, or once too many keys are known to count on.
	Attempt int64 `json:"attempt"`
	// Conn is the number of the connection, from 1; Remote its far end.
	Conn   int64  `json:"conn"`
	Remote string `json:"remote"`
	// Faults are the kinds that hit it.
	Faults []FaultKind `json:"faults,omitempty"`
	// Rejected is the 4xx status with which it was turned away unread: bad key, body or credentials.
	Rejected int `json:"rejected,omitempty"`
}

// RequestSummary counts requests since the bank started.
type RequestSummary struct {
	Payments  int64 `json:"payments"`  // POSTs that were understood
	Inquiries int64 `json:"inquiries"` // inquiries that were understood
	Rejected  int64 `json:"rejected"`  // bad key, body or credentials
	// Keys counts distinct keys of payments, ResentKeys those with more than one POST, MaxSends the most POSTs of one.
	Keys       int   `json:"keys"`
	ResentKeys int   `json:"resent_keys"`
	MaxSends   int64 `json:"max_sends"`
	// ChangedKeys counts keys that came with more than one body: a client must not do that.
	ChangedKeys int `json:"changed_keys"`
	// RekeyedReferences counts references that came with more than one key: a client must not do that.
	RekeyedReferences int `json:"rekeyed_references"`
	// Uncounted counts requests whose key was not followed, because 2,000,000 others are. 0 means that
	// the counts are complete.
	Uncounted int64 `json:"uncounted"`
	// Forgotten counts requests that are no longer in memory.
	Forgotten int64 `json:"forgotten"`
}

// maxCounted bounds the keys, and the references, that are counted.
const maxCounted = 2_000_000

// sends contains the counts of one key.
type sends struct {
	count   int64
	body    [sha256.Size]byte
	changed bool
}

// rekeyed contains the counts of one reference.
type rekeyed struct {
	key     string
	changed bool
}

// requestLog records requests, in memory and in a file.
type requestLog struct {
	mu        sync.Mutex
	file      *os.File // nil if not wanted
	fileErr   error
	max       int
	ring      []Request // the newest, in arrival order from ring[next] round
	next      int
	total     int64
	rejected  int64
	inquiries int64
	payments  int64
	uncounted int64
	keys      map[string]*sends
	refs      map[string]*rekeyed
	asked     map[string]int64 // inquiries by "k" + key or "r" + reference
}

func openRequestLog(path string, max int) (*requestLog, error) {
	l := &requestLog{max: max, keys: map[string]*sends{}, refs: map[string]*rekeyed{}, asked: map[string]int64{}}
	if path == "" {
		return l, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open request file: %w", err)
	}
	l.file = f
	return l, nil
}

func newRequest(r *http.Request, op string, body []byte, now time.Time) Request {
	seen := Request{Time: now.UTC(), Op: op, Conn: connNumber(r.Context()), Remote: r.RemoteAddr}
	if op == "payment" {
		sum := sha256.Sum256(body)
		seen.BodySHA256 = hex.EncodeToString(sum[:])
	}
	return seen
}

// number counts a request and returns the subject that faults are drawn by.
func (l *requestLog) number(seen *Request) subject {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	seen.N = l.total
	if seen.Op == "payment" {
		l.payments++
		seen.Attempt = l.countSend(seen)
	} else {
		l.inquiries++
		seen.Attempt = l.countInquiry(seen)
	}
	return subject{key: seen.Key, reference: seen.Reference, nth: seen.Attempt, arrival: seen.N}
}

func (l *requestLog) countSend(seen *Request) int64 {
	known := l.keys[seen.Key]
	if known == nil {
		if len(l.keys) >= maxCounted || len(l.refs) >= maxCounted {
			l.uncounted++
			return 0
		}
		known = &sends{}
		l.keys[seen.Key] = known
	}
	var body [sha256.Size]byte
	_, _ = hex.Decode(body[:], []byte(seen.BodySHA256))
	known.count++
	known.changed = known.changed || (known.count > 1 && known.body != body)
	known.body = body
	if ref := l.refs[seen.Reference]; ref == nil {
		l.refs[seen.Reference] = &rekeyed{key: seen.Key}
	} else if ref.key != seen.Key {
		ref.changed = true
	}
	return known.count
}

func (l *requestLog) countInquiry(seen *Request) int64 {
	name := "k" + seen.Key
	switch {
	case seen.Reference != "":
		name = "r" + seen.Reference
	case seen.ID != "":
		name = "i" + seen.ID
	}
	if _, known := l.asked[name]; !known && len(l.asked) >= maxCounted {
		l.uncounted++
		return 0
	}
	l.asked[name]++
	return l.asked[name]
}

// add keeps a request that number has counted.
func (l *requestLog) add(seen Request, hit hits) {
	for _, f := range hit {
		seen.Faults = append(seen.Faults, f.Kind)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(seen)
}

// reject counts and keeps a request that was turned away.
func (l *requestLog) reject(seen Request, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.rejected++
	seen.N, seen.Rejected = l.total, status
	l.keep(seen)
}

// keep stores a request. The caller holds mu. The line is written to the operating system at once,
// so it outlives a kill of this process.
func (l *requestLog) keep(seen Request) {
	if len(l.ring) < l.max {
		l.ring = append(l.ring, seen)
	} else {
		l.ring[l.next] = seen
		l.next = (l.next + 1) % l.max
	}
	if l.file == nil || l.fileErr != nil {
		return
	}
	line, err := json.Marshal(seen)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	l.fileErr = err
}

func (l *requestLog) list() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Request, 0, len(l.ring))
	out = append(out, l.ring[l.next:]...)
	return append(out, l.ring[:l.next]...)
}

func (l *requestLog) summary() RequestSummary {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := RequestSummary{
		Payments:  l.payments,
		Inquiries: l.inquiries,
		Rejected:  l.rejected,
		Keys:      len(l.keys),
		Uncounted: l.uncounted,
		Forgotten: l.total - int64(len(l.ring)),
	}
	for _, k := range l.keys {
		s.MaxSends = max(s.MaxSends, k.count)
		if k.count > 1 {
			s.ResentKeys++
		}
		if k.changed {
			s.ChangedKeys++
		}
	}
	for _, r := range l.refs {
		if r.changed {
			s.RekeyedReferences++
		}
	}
	return s
}

// close reports the first error of writing the file, if there was one.
func (l *requestLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.fileErr, l.file.Close())
	l.file, l.fileErr = nil, nil
	return err
}
