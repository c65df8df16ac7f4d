package railsim

import (
	"errors"
	"fmt"
	"time"
)

// decide decides a payment that begin put in flight, and returns when the decision is durable. An
// error means that the ledger is broken: what is on disk is not known, so no caller gets a result,
// and the key stays in flight.
func (b *Bank) decide(p *payment, act Fault) error {
	b.mu.Lock()
	b.lastID++
	p.id = formatID(b.lastID)
	kind, why := b.judge(p, act)
	if kind == Executed && b.cfg.Mode == Provisional {
		kind = Accepted
	}
	r, length, err := b.write(p, kind, why)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	if err := b.commitRecord(p, r, length); err != nil {
		return err
	}
	if kind == Accepted {
		b.spawn(func() { b.settle(p, time.Time{}) })
	}
	return nil
}

// judge is called with mu held.
func (b *Bank) judge(p *payment, act Fault) (Kind, refusal) {
	switch act.Kind {
	case Refuse, RefuseDrop, RefuseSettle:
		why := refusal{act.Code, act.Message}
		set(&why.code, "AM04")
		set(&why.message, "refused by a fault rule")
		return Refused, why
	}
	if b.cfg.Mode == Provisional && p.state == stateNew {
		return Executed, refusal{} // accounts are judged when it settles
	}
	if why, no := b.book.judge(p); no {
		return Refused, why
	}
	return Executed, refusal{}
}

// write moves the money if kind requires it, and queues the record. Both happen under mu, which the
// caller holds, so that the order of the file is the order in which balances changed. No caller may
// get the result before the journal is durable up to the returned length; a crash before that
// leaves neither record nor movement.
func (b *Bank) write(p *payment, kind Kind, why refusal) (Record, int64, error) {
	r := p.record(kind, why, b.cfg.Now())
	r.Seq = b.lastSeq + 1
	line, err := encodeRecord(r)
	if err != nil {
		return Record{}, 0, err
	}
	b.lastSeq = r.Seq
	if kind == Executed {
		b.book.move(p.debtor, p.creditor, p.currency, p.minor)
	}
	return r, b.journal.append(line), nil
}

// commitRecord waits until the record is on disk and then updates memory.
func (b *Bank) commitRecord(p *payment, r Record, length int64) error {
	if err := b.journal.wait(length); err != nil {
		if !errors.Is(err, errJournalClosed) {
			b.log.Error("ledger is broken", "error", err)
		}
		return fmt.Errorf("payment %s: %w", r.ID, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applied(p, r)
	return nil
}

// settle settles an accepted payment and sends the callback. The time since is when an earlier life
// accepted it; zero means now. A bank that stops first leaves the payment pending for its next
// life.
func (b *Bank) settle(p *payment, since time.Time) {
	hit := b.faults.apply(stageSettle, subject{key: p.key, reference: p.reference, creditor: p.creditor,
		arrival: parseID(p.id)})
	wait := b.cfg.SettleDelay + hit.total(DelaySettle)
	if !since.IsZero() {
		wait -= b.cfg.Now().Sub(since)
	}
	if !b.sleep(wait) {
		return
	}
	b.mu.Lock()
	kind, why := b.judge(p, hit.other())
	r, length, err := b.write(p, kind, why)
	b.mu.Unlock()
	if err == nil {
		err = b.commitRecord(p, r, length)
	}
	if err != nil {
		b.log.Error("settle a payment", "id", p.id, "error", err)
		return
	}
	if b.callbacks != nil {
		b.callbacks.send(r)
	}
}

// resume settles the payments that an earlier life accepted. The caller holds mu. Only the first of
// its calls, one at each Serve, has an effect.
func (b *Bank) resume() {
	if b.resumed {
		return
	}
	b.resumed = true
	for _, p := range b.pending {
		b.work.Go(func() { b.settle(p, p.answered) })
	}
}
