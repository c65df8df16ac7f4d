package railsim

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// reply is the JSON of every answer under /payments.
type reply struct {
	Status    string `json:"status"`
	ID        string `json:"id,omitempty"`
	Reference string `json:"reference,omitempty"`
	Key       string `json:"key,omitempty"`
	Code      string `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
}

// answer is an HTTP answer that can be sent, or spoilt by a fault.
type answer struct {
	status   int
	reply    reply
	replayed bool
}

func problem(status int, code, message string) answer {
	return answer{status: status, reply: reply{Status: "ERROR", Code: code, Message: message}}
}

// servePayment serves POST /payments: it reads, draws faults, looks the key up, decides and
// answers.
func (b *Bank) servePayment(w http.ResponseWriter, r *http.Request) {
	body, bad := b.readBody(w, r)
	seen := newRequest(r, "payment", body, b.cfg.Now())
	if bad == nil {
		bad = b.authenticate(r, body)
	}
	var p *payment
	if bad == nil {
		p, bad = readOrder(r, body)
	}
	if bad != nil {
		b.seen.reject(seen, bad.status)
		b.writeAnswer(w, *bad)
		return
	}
	seen.Key, seen.Reference = p.key, p.reference
	on := b.seen.number(&seen)
	on.creditor, on.replay = p.creditor, b.known(p)
	hit := b.faults.apply(stagePayment, on)
	b.seen.add(seen, hit)

	act := hit.other()
	if !b.sleep(hit.total(DelayArrival)) {
		b.drop(w)
		return
	}
	if b.failBefore(w, r, act) {
		return
	}
	a, decided := b.pay(p, hit)
	switch {
	case !decided && a == nil:
		b.drop(w)
	case !decided:
		b.writeAnswer(w, *a)
	case !b.sleep(hit.total(DelayAfter)):
		b.drop(w)
	case act.Kind == ResentAfter && !a.replayed:
		b.writeAnswer(w, b.replayAnswer(p))
	default:
		b.failAfter(w, r, act, *a)
	}
}

// pay decides a payment and returns the answer. The result decided is set if the answer rests on a
// durable record; otherwise faults of the answer do not apply to it. A nil answer means that the
// bank closed first, and nothing executed.
func (b *Bank) pay(p *payment, hit hits) (a *answer, decided bool) {
	if _, err := b.journal.length(); err != nil {
		return new(problem(http.StatusServiceUnavailable, "LEDGER_BROKEN", "the bank can't write its ledger")), false
	}
	known, is := b.begin(p)
	switch is {
	case verdictReused:
		return new(problem(http.StatusConflict, "KEY_REUSED", "this key was used with another body")), false
	case verdictInFlight:
		return new(problem(http.StatusConflict, "IN_FLIGHT", "a payment with this key is being decided")), false
	case verdictFull:
		return new(problem(http.StatusServiceUnavailable, "FULL", "the bank holds no more payments or accounts")), false
	case verdictReplay:
		return new(b.replayAnswer(known)), true
	}
	if !b.sleep(hit.total(DelayBefore)) {
		b.forget(p)
		return nil, false
	}
	if err := b.decide(p, hit.other()); err != nil {
		return new(problem(http.StatusInternalServerError, "LEDGER_BROKEN",
			"it is unknown what became of this payment")), false
	}
	return new(b.firstAnswer(p)), true
}

// firstAnswer returns the answer that the key stands for. In provisional mode it stays ACCEPTED
// after settlement, as stored answers do.
func (b *Bank) firstAnswer(p *payment) answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := answer{reply: reply{ID: p.id, Reference: p.reference, Key: p.key}}
	switch {
	case p.provisional:
		a.status, a.reply.Status = http.StatusAccepted, "ACCEPTED"
	case p.state == stateRefused:
		a.status, a.reply.Status = http.StatusUnprocessableEntity, "REFUSED"
		a.reply.Code, a.reply.Message = p.code, p.message
	default:
		a.status, a.reply.Status = http.StatusCreated, "EXECUTED"
	}
	return a
}

func (b *Bank) replayAnswer(p *payment) answer {
	const duplicate = "duplicate payment"
	b.mu.Lock()
	onReplay := b.cfg.Behaviour.OnReplay
	b.mu.Unlock()
	switch onReplay {
	case ReplayDuplicate:
		return problem(http.StatusConflict, "DUPL", duplicate)
	case ReplayDuplicate422:
		return answer{status: http.StatusUnprocessableEntity,
			reply: reply{Status: "REFUSED", Code: "DUPL", Message: duplicate}}
	case ReplayDuplicate200:
		return answer{status: http.StatusOK, reply: reply{Status: "REFUSED", Code: "DUPL", Message: duplicate}}
	case ReplayBadRequest:
		return problem(http.StatusBadRequest, "ALREADY_EXISTS", "a payment with this key already exists")
	}
	a := b.firstAnswer(p)
	a.replayed = true
	return a
}

// readBody reads at most Config.MaxBodyBytes.
func (b *Bank) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *answer) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, b.cfg.MaxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return body, new(problem(http.StatusRequestEntityTooLarge, "TOO_LARGE",
			fmt.Sprintf("the body is longer than %d bytes", b.cfg.MaxBodyBytes)))
	}
	if err != nil {
		return body, new(problem(http.StatusBadRequest, "INCOMPLETE", "the body ended early"))
	}
	return body, nil
}

// readOrder checks key and body.
func readOrder(r *http.Request, body []byte) (*payment, *answer) {
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) != 1 || !printable(keys[0], maxKey) {
		return nil, new(problem(http.StatusBadRequest, "KEY_INVALID",
			fmt.Sprintf("there must be one Idempotency-Key of 1 to %d printable ASCII characters", maxKey)))
	}
	p, err := parseOrder(keys[0], body)
	if err != nil {
		return nil, new(problem(http.StatusBadRequest, "INVALID", err.Error()))
	}
	return p, nil
}

// printable reports whether s consists of 1 to max characters from space to tilde.
func printable(s string, max int) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= max
}
