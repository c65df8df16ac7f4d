package console

import (
	"context"
	"encoding/base64"
	"net/http"
	"time"
)

// ordersMax bounds the orders of one session whose outcomes are kept.
const ordersMax = 20

// given is an order that a form gave, and what became of it.
type given struct {
	at   time.Time
	over chan struct{} // closed once body is set
	body outcomesBody
}

// order returns the order of a form, which begins with the base of its cell, and whether it is new: a form
// gives its order once, however often it is sent. The oldest one makes place for a new one. Without a session
// there is none.
func (s *sessions) order(secret, form string) (order *given, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.find(secret)
	if one == nil {
		return nil, false
	}
	key := digestOf(form)
	if before := one.orders[key]; before != nil {
		return before, false
	}
	if one.orders == nil {
		one.orders = make(map[digest]*given)
	}
	for len(one.orders) >= ordersMax {
		var oldest digest
		for key, other := range one.orders {
			if found := one.orders[oldest]; found == nil || other.at.Before(found.at) {
				oldest = key
			}
		}
		delete(one.orders, oldest)
	}
	order = &given{at: time.Now(), over: make(chan struct{})}
	one.orders[key] = order
	return order, true
}

// ordered returns the order of a form that was sent; nil: none, or it is no longer kept.
func (s *sessions) ordered(secret, form string) *given {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.find(secret); one != nil {
		return one.orders[digestOf(form)]
	}
	return nil
}

// giveOrder does the order of a form once, and leads to its outcomes. It goes on if the browser leaves:
// by a second click a browser gives up the first request, and shows the answer to the second one.
func (c *Console) giveOrder(
	w http.ResponseWriter, r *http.Request, form string, do func(context.Context) outcomesBody,
) {
	order, isNew := c.sessions.order(c.secretOf(r), c.base+form)
	switch {
	case order == nil:
		c.loginPage(w, r)
		return
	case isNew:
		within, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), c.config.RequestTimeout)
		defer cancel()
		defer close(order.over)
		order.body = do(within)
	}
	c.redirect(w, r, "/dead-letters/orders/"+form)
}

// outcomes shows what became of an order.
func (c *Console) outcomes(w http.ResponseWriter, r *http.Request, _ Person) {
	order := c.sessions.ordered(c.secretOf(r), c.base+r.PathValue("form"))
	if order == nil {
		c.fail(w, r, problem{http.StatusNotFound, "These outcomes are no longer kept",
			"The operator log has each act, and the page of each payment what was done."})
		return
	}
	select {
	case <-order.over:
		c.show(w, r, "outcomes.html", page{Title: "What became of it", Body: order.body})
	case <-r.Context().Done():
		c.fail(w, r, problem{http.StatusGatewayTimeout, "The acts are not over", "Load this page again."})
	}
}

// isForm reports whether a text may name a form, as newSecret does.
func isForm(text string) bool {
	random, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(random) == secretSize
}
