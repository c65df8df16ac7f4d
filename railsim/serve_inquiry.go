package railsim

import "net/http"

// serveInquiry serves GET /payments/by-key/{key}, /payments/by-reference/{reference} and
// /payments/by-id/{id}.
func (b *Bank) serveInquiry(w http.ResponseWriter, r *http.Request) {
	seen := newRequest(r, "inquiry", nil, b.cfg.Now())
	if bad := b.authenticate(r, nil); bad != nil {
		b.seen.reject(seen, bad.status)
		b.writeAnswer(w, *bad)
		return
	}
	seen.Key, seen.Reference, seen.ID = r.PathValue("key"), r.PathValue("reference"), r.PathValue("id")
	b.mu.Lock()
	p := b.byKey[seen.Key]
	switch {
	case seen.Reference != "":
		p = b.byRef[seen.Reference]
	case seen.ID != "":
		p = b.byID[seen.ID]
	}
	b.mu.Unlock()
	on := b.seen.number(&seen)
	if p != nil {
		on.key, on.reference, on.creditor = p.key, p.reference, p.creditor
	}
	hit := b.faults.apply(stageInquiry, on)
	b.seen.add(seen, hit)
	if !b.sleep(hit.total(InquiryDelay)) {
		b.drop(w)
		return
	}
	if act := hit.other(); !b.failInquiry(w, r, act) {
		b.writeAnswer(w, b.inquire(p, seen.Key, act))
	}
}

// inquire returns the answer about a payment that was asked for by key, if a key is given, as one
// fault falsifies it.
func (b *Bank) inquire(p *payment, key string, act Fault) answer {
	notFound := answer{status: http.StatusNotFound, reply: reply{Status: "NOT_FOUND"}}
	if act.Kind == InquiryNoTrace {
		notFound = answer{status: http.StatusOK, reply: reply{Status: string(Refused), Key: key, Code: "AG09",
			Message: "the payment can't be traced"}}
	}
	if p == nil || act.Kind == InquiryNotFound {
		return notFound
	}
	b.mu.Lock()
	a := answer{status: http.StatusOK, reply: reply{Status: "IN_PROGRESS", ID: p.id, Reference: p.reference, Key: p.key}}
	final, decided := p.state.final(), p.decided
	if final {
		a.reply.Code, a.reply.Message = p.code, p.message
		a.reply.Status = string(Executed)
		if p.state == stateRefused {
			a.reply.Status = string(Refused)
		}
	}
	b.mu.Unlock()

	age := b.cfg.Now().Sub(decided)
	switch act.Kind {
	case InquiryBlind, InquiryNoTrace:
		if !final {
			return notFound
		}
	case InquiryForgetful:
		if final && age >= act.delay() {
			return notFound
		}
	case InquiryLag:
		if final && age >= act.delay() {
			break
		}
		if act.Answer != "IN_PROGRESS" {
			return notFound
		}
		a.reply.Status, a.reply.Code, a.reply.Message = "IN_PROGRESS", "", ""
	case InquiryUnknown:
		a.reply.Status, a.reply.Code, a.reply.Message = "INCONCLUSIVE", "", ""
	case InquiryWrongID:
		a.reply.ID, a.reply.Key, a.reply.Reference = wrongID, other(a.reply.Key), other(a.reply.Reference)
	}
	return a
}

// wrongID has the form of a bank id and belongs to no payment.
const wrongID = idPrefix + "999999999999"

// other returns another payment's key or reference.
func other(name string) string { return name + "-other" }
