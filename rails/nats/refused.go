package nats

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// The errors of a server that are sent in place of handling a request. Others prove nothing about it.
const (
	denied  = "Permissions Violation"
	tooLong = "Maximum Payload Violation" // it ends the connection
)

// refuse records an error of the server. It ends the request under way if the server reports it in place of
// handling that request. A connection carries one request at a time, and none after one without an answer, so that
// an error with the subject of a request is about that one.
func (c *conn) refuse(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = text
	is := func(said string) bool { return text == "'"+said+"'" }
	if c.awaited == "" || !is(tooLong) && (c.asked == "" || !is(fmt.Sprintf(denied+" for Publish to %q", c.asked))) {
		return
	}
	c.awaited, c.pulls = "", false
	select {
	case c.answers <- message{refused: text}:
	default: // there is an answer already
	}
}

// asks says which subject the request has for which the connection was made ready.
func (c *conn) asks(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = subject
}

// learn takes the largest message from what a server says of itself after the login: it may have been changed.
func (c *conn) learn(text string) {
	var info serverInfo
	if json.Unmarshal([]byte(text), &info) != nil || info.MaxPayload <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxSize = info.MaxPayload
}

// takes returns the size of the largest message that the server takes, as far as it has said.
func (c *conn) takes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.maxSize
}

// unhandledError is the error that a server sent in place of handling a request.
type unhandledError string

func (e unhandledError) Error() string { return "the server has not taken it: it says " + string(e) }

// sound returns an answer. If it is an error in place of one, it ends the connection.
func (c *conn) sound(answer message) (message, error) {
	if answer.refused == "" {
		return answer, nil
	}
	c.abort()
	return message{}, unhandledError(answer.refused)
}

// judgeUnhandled returns what an unhandledError proves: the stream does not get this message. That is nothing about
// an earlier send of it.
func judgeUnhandled(err error) rails.Result {
	code := denied
	if strings.Contains(err.Error(), tooLong) {
		code = tooLong
	}
	return rails.Result{
		Result: payment.ResultRefusedRail, RailRefused: true, FirstByte: true, Code: code, CodeTable: "nats",
		Message: err.Error(),
	}
}
