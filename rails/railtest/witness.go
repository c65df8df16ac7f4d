package railtest

import "testing"

// Witness is the other side of a rail, in one protocol. HTTP returns the one for HTTP/1.1; an
// adapter for another protocol brings its own.
//
// What the other side received decides a test. A witness therefore reads the wire itself, or is a
// server of the protocol with a recorder in front of it. It never asks the adapter.
type Witness interface {
	// Protocol is its name, for the log of a test.
	Protocol() string
	// Open starts a bank and closes it at the end of the test. The bank calls behave for each
	// request about a payment that arrived whole, after it has recorded it, one at a time for a
	// connection. What the protocol needs before, such as a greeting, a login, or a look at the
	// settings of a stream, the witness answers by itself.
	Open(t testing.TB, behave func(Request)) Bank
	// Nowhere returns an address at which nothing listens.
	Nowhere(t testing.TB) string
	// Cases are tests of what only this protocol has. They run after those of all protocols.
	Cases() []Case
}

// Bank is a bank, or a broker, that a Witness has started. Its methods are safe for concurrent use.
type Bank interface {
	// Address is what Subject.Open gets.
	Address() string
	// Times counts the requests that contain a rail key in any place, sends and inquiries.
	Times(railKey string) int
	// Asked counts the requests about payments.
	Asked() int
	// Arrived counts the bytes of requests about payments, those of incomplete ones included. A
	// protocol in which the client speaks before its first request does not count that.
	Arrived() int64
	// Sends returns each request about a payment as text, in the order of arrival, without what may
	// differ between two sends of an instruction: connection, trace context, time and signature.
	Sends() []string
	// Heard returns all that arrived, logins included.
	Heard() string
	// Close closes the listener and all connections.
	Close()
}

// Request is one request about a payment, with the connection on which it arrived.
type Request interface {
	// RailKey is the rail key that the request contains; empty: none.
	RailKey() string
	// Say answers. {rail_key} in the answer is replaced by the request's rail key.
	Say(answer Answer)
	// Hang says nothing until the rail ends the connection, or the test ends.
	Hang()
	// Trickle begins an answer and never ends it, in the way that is hardest to notice.
	Trickle()
	// Cut ends the connection without an answer. It may already have been ended.
	Cut()
}

// Answer is an answer of a bank, in the terms of the protocol:
//
//   - HTTP/1.1: the status code, and the body.
//   - NATS: the status header of an answer without a body, such as 503, or 0; and the JSON.
//   - Kafka: the error code of the partition, 0 for none; and the broker's text about it, or the topic that
//     acknowledges.
//
// {rail_key} in the body is replaced by the rail key of the payment.
type Answer struct {
	Status int
	Body   string
}

// Case is a test of the suite.
type Case struct {
	Name string
	Test func(t *testing.T, s Subject)
}
