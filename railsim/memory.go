package railsim

import "strings"

// verdict is the result of a look-up of a payment in the idempotency memory.
type verdict int

const (
	verdictNew      verdict = iota // its key is now in flight, and the caller must decide it or forget it
	verdictReplay                  // the same payment was answered before
	verdictReused                  // the key stands for another body
	verdictInFlight                // the same payment is being decided
	verdictFull                    // a bound is reached
)

// memoryKey is what makes two POSTs the same payment to this bank.
func (b *Bank) memoryKey(p *payment) string {
	if b.cfg.Behaviour.ChangedAmountIsNew {
		return strings.Join([]string{p.key, p.amount, p.currency, p.debtor, p.creditor}, "\x00")
	}
	return p.key
}

// known reports whether the key of p is remembered.
func (b *Bank) known(p *payment) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recall(p) != nil
}

// recall returns what the key of p stands for, inside the window. It is called with mu held.
func (b *Bank) recall(p *payment) *payment {
	if b.cfg.Behaviour.NoDedupe {
		return nil
	}
	old := b.memory[b.memoryKey(p)]
	if old != nil && old.state != stateNew && b.cfg.Now().Sub(old.answered) >= b.cfg.KeyWindow {
		return nil
	}
	return old
}

// begin looks the key up and, if it is new, puts it in flight. It returns the payment that the key stands for.
func (b *Bank) begin(p *payment) (*payment, verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.recall(p); old != nil {
		switch {
		case old.bodySHA256 != p.bodySHA256:
			return old, verdictReused
		case old.state == stateNew:
			return old, verdictInFlight
		}
		return old, verdictReplay
	}
	if b.payments >= b.cfg.MaxPayments || len(b.pending) >= b.cfg.MaxPending || !b.book.room() {
		return nil, verdictFull
	}
	b.remember(p)
	return p, verdictNew
}

// remember makes p what its key and reference stand for. It is called with mu held.
func (b *Bank) remember(p *payment) {
	b.payments++
	b.memory[b.memoryKey(p)] = p
	p.olderOfKey, b.byKey[p.key] = b.byKey[p.key], p
	p.olderOfRef, b.byRef[p.reference] = b.byRef[p.reference], p
}

// forget undoes remember, for a payment of which nothing was recorded.
func (b *Bank) forget(p *payment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.payments--
	if key := b.memoryKey(p); b.memory[key] == p {
		delete(b.memory, key)
	}
	b.restore(p)
}

// restore lets inquiry find what it found before p. The caller holds mu.
func (b *Bank) restore(p *payment) {
	if b.byKey[p.key] == p {
		put(b.byKey, p.key, p.olderOfKey)
	}
	if b.byRef[p.reference] == p {
		put(b.byRef, p.reference, p.olderOfRef)
	}
}

func put(index map[string]*payment, name string, p *payment) {
	if p == nil {
		delete(index, name)
		return
	}
	index[name] = p
}

// applied updates memory by a durable record about p. The caller holds mu, or is New.
func (b *Bank) applied(p *payment, r Record) {
	b.tally.add(r)
	if p.state == stateNew {
		p.answered = r.Time
	}
	p.id = r.ID
	b.byID[p.id] = p
	switch r.Kind {
	case Accepted:
		p.state, p.provisional = stateAccepted, true
		b.pending[p.id] = p
		return
	case Executed:
		p.state = stateExecuted
	case Refused:
		p.state, p.code, p.message = stateRefused, r.Code, r.Message
		if b.cfg.Behaviour.ForgetRefusals && b.memory[b.memoryKey(p)] == p {
			delete(b.memory, b.memoryKey(p))
		}
		b.keepExecuted(p)
	}
	p.decided = r.Time
	p.minor, p.olderOfKey, p.olderOfRef = nil, nil, nil
	delete(b.pending, p.id)
}

// keepExecuted keeps a refusal from hiding an earlier execution of the same key or reference from
// inquiry.
func (b *Bank) keepExecuted(p *payment) {
	if older := p.olderOfKey; older != nil && older.state == stateExecuted && b.byKey[p.key] == p {
		b.byKey[p.key] = older
	}
	if older := p.olderOfRef; older != nil && older.state == stateExecuted && b.byRef[p.reference] == p {
		b.byRef[p.reference] = older
	}
}
