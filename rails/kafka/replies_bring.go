package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/rails/callback"
)

// reading reads the partitions that one broker leads.
type reading struct {
	*Replies
	about      topic
	positions  *office
	into       callback.Taker
	partitions []int32
	known      map[int32]bool // those that were seen to be the ones that were read before
	failed     map[int32]bool // those that have a fault, until the brokers are connected to again
}

// run reads until the broker has a fault, or a partition has another leader. A fault of a partition lets the others
// go on for a while. The outer context ends when the source does.
func (r *reading) run(ctx, outer context.Context, address string) error {
	c, about, err := r.open(ctx, address)
	if err != nil {
		return err
	}
	defer c.abort()
	if !r.agrees(about) {
		return errors.New("the brokers do not agree on who leads which partition")
	}
	var until time.Time
	for ctx.Err() == nil && !c.over() && (until.IsZero() || time.Now().Before(until)) {
		if time.Since(c.checked) >= recheck {
			call, cancel := context.WithTimeout(ctx, replyCall)
			about, err := r.look(call, c)
			cancel()
			if err != nil || !r.agrees(about) {
				return err
			}
		}
		before := len(r.failed)
		if err := r.round(ctx, outer, c); err != nil {
			return err
		}
		if len(r.failed) > before && until.IsZero() {
			until = time.Now().Add(replyPause)
		}
		if len(r.failed) == len(r.partitions) {
			pause(ctx, time.Until(until))
		}
	}
	return nil
}

// agrees reports whether the partitions have the leaders that they had when the brokers were connected to.
func (r *reading) agrees(about topic) bool {
	return maps.Equal(about.leaders, r.about.leaders) && about.partitions == r.about.partitions
}

// fail notes the fault of a partition.
func (r *reading) fail(ctx context.Context, partition int32, err error) {
	r.failed[partition] = true
	r.unread(ctx, r.into, fmt.Errorf("partition %d: %w", partition, err))
}

// left returns the partitions that have no fault.
func (r *reading) left() []int32 {
	return slices.DeleteFunc(slices.Clone(r.partitions), func(partition int32) bool { return r.failed[partition] })
}

// round brings what comes again and what is new, and stores how far that is. An error is one of the connection.
func (r *reading) round(ctx, outer context.Context, c *conn) error {
	for _, partition := range r.left() {
		p, err := r.partition(partition), error(nil)
		if !r.known[partition] {
			err = r.recognise(ctx, c, partition, p)
		}
		if err == nil {
			r.known[partition] = true
			err = r.again(ctx, outer, c, partition, p)
		}
		if err == nil && len(p.waiting) >= maxWaiting {
			err = fmt.Errorf("%d callbacks were refused or could not be recorded, and come again: nothing behind them is "+
				"read before", len(p.waiting))
		}
		if err != nil && c.over() {
			return err
		}
		if err != nil {
			r.fail(ctx, partition, err)
		}
	}
	r.partitions = append(r.partitions[1:], r.partitions[0]) // an answer may have room for the first alone
	ahead := r.left()
	if len(ahead) == 0 {
		return nil
	}
	got, err := r.fetch(ctx, c, r.about, ahead, func(n int32) int64 { return r.partition(n).next }, replyWait)
	if err != nil {
		return err
	}
	for _, partition := range ahead {
		if err := r.ahead(ctx, outer, c, partition, got[partition]); err != nil && c.over() {
			return err
		} else if err != nil {
			r.fail(ctx, partition, err)
		}
	}
	if err := r.positions.keep(ctx, r.left()); err != nil {
		return fmt.Errorf("storing the position: %w", err)
	}
	return nil
}

// one asks for the records of one partition from an offset on, without a wait.
func (r *reading) one(ctx context.Context, c *conn, partition int32, offset int64) (replies, error) {
	got, err := r.fetch(ctx, c, r.about, []int32{partition}, func(int32) int64 { return offset }, 0)
	if err != nil {
		return replies{}, err
	}
	if got[partition].err != nil {
		return replies{}, got[partition].err
	}
	return read(got[partition], offset)
}

// recognise looks for the last record that was read. If the partition has another one in its place, or never had one
// there, it is not what was read: it was made anew, or has lost records, and is read from its first record on. What
// was recorded is recognised.
func (r *reading) recognise(ctx context.Context, c *conn, partition int32, p *progress) error {
	first, err := r.first(ctx, c, r.about, partition)
	if err == nil && p.set <= first {
		p.set = 0 // there is nothing before it
	}
	switch {
	case err != nil:
		return err
	case p.next == noPosition:
		if first > 0 {
			r.into.Missed(ctx, r.of(partition, "the group has no position, and the first record is at offset %d: what was "+
				"before it, and was not read, is lost", first))
		}
		p.begin(first)
		return nil
	case p.newest.digest == "" || p.newest.offset < first:
		return nil
	}
	got, err := r.one(ctx, c, partition, p.newest.offset)
	switch {
	case errors.Is(err, errOutOfRange):
	case err != nil:
		return err
	case got.next == p.newest.offset:
		return fmt.Errorf("it does not show the record at offset %d, which was read", p.newest.offset)
	case len(got.all) > 0 && got.all[0].mark == p.newest:
		return nil
	}
	r.wentBack(ctx, partition, p, first)
	return nil
}

// wentBack has a partition read from its first record on.
func (r *reading) wentBack(ctx context.Context, partition int32, p *progress, first int64) {
	r.into.Missed(ctx, r.of(partition, "it is not the one that was read up to offset %d: it was made anew, or has lost "+
		"records; it is read again from its first record, at offset %d", p.next-1, first))
	p.begin(first)
}

// again brings the records whose time has come.
func (r *reading) again(ctx, outer context.Context, c *conn, partition int32, p *progress) error {
	for _, offset := range p.due(time.Now()) {
		got, err := r.one(ctx, c, partition, offset)
		switch {
		case errors.Is(err, errOutOfRange) || err == nil && (len(got.all) == 0 || got.all[0].offset != offset) &&
			got.next > offset:
			delete(p.waiting, offset)
			r.into.Missed(ctx, r.of(partition, "the callback at offset %d was refused or could not be recorded, and is not "+
				"in the partition any more", offset))
			continue
		case err != nil:
			return err
		case len(got.all) == 0:
			return fmt.Errorf("it does not show the record at offset %d, which was read", offset)
		}
		if !r.bring(outer, partition, p, got.all[:1]) {
			return nil
		}
	}
	return nil
}

// ahead brings what is new of a partition.
func (r *reading) ahead(ctx, outer context.Context, c *conn, partition int32, got fetched) error {
	p := r.partition(partition)
	if errors.Is(got.err, errOutOfRange) {
		first, err := r.first(ctx, c, r.about, partition)
		switch {
		case err != nil:
			return err
		case first > p.next:
			r.into.Missed(ctx, r.of(partition, "%s were removed before the group had read them", span(p.next, first-1)))
			p.next = first
		default:
			r.wentBack(ctx, partition, p, first)
		}
		return nil
	}
	if got.err != nil {
		return got.err
	}
	if p.set > 0 {
		r.into.Missed(ctx, r.of(partition, "the position of the group, %d, was stored by another client or by hand: what is "+
			"before it, and was not read, is not read. Without the position all that the partition has is read again", p.set))
		p.set = 0
	}
	// What was read before a fault is brought.
	found, err := read(got, p.next)
	going := true
	for chunk := range slices.Chunk(found.all, repliesAtOnce) {
		going = r.bring(outer, partition, p, chunk)
		last := chunk[len(chunk)-1]
		p.next, p.newest = last.offset+1, last.mark
		if !going {
			break
		}
	}
	if going {
		p.next = found.next
	}
	for _, each := range found.missed {
		if each.offset < p.next {
			r.into.Missed(ctx, r.of(partition, "%s", each.why))
		}
	}
	return err
}

// bring has records taken, all at once, and notes what became of them. It returns false if more would fare no better:
// the database is away, or the source ends.
func (r *reading) bring(ctx context.Context, partition int32, p *progress, some []reply) bool {
	fates, last := make([]callback.Fate, len(some)), make([]bool, len(some))
	var all sync.WaitGroup
	for n, one := range some {
		tries, final := p.tries(one.offset, time.Now())
		last[n] = final
		all.Go(func() {
			fates[n] = r.into.Take(ctx, callback.Kept{
				Header: one.header, Body: one.body, Deliveries: tries + 1, Last: final,
				From: fmt.Sprintf("offset %d of partition %d of topic %s", one.offset, partition, r.wanted.topic),
			})
		})
	}
	all.Wait()
	for n, one := range some {
		p.settle(one.offset, fates[n], last[n], time.Now())
	}
	if slices.Contains(fates, callback.Again) {
		pause(ctx, time.Second)
		return false
	}
	return ctx.Err() == nil
}
