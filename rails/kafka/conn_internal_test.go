package kafka

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ending is a connection whose call ends while the last byte of an answer is read.
type ending struct {
	net.Conn
	answer  bytes.Buffer
	written int
	end     func()
}

func (e *ending) Read(into []byte) (int, error) {
	n, err := e.answer.Read(into)
	if e.answer.Len() == 0 {
		e.end()
	}
	return n, err
}

func (e *ending) Write(some []byte) (int, error)   { e.written += len(some); return len(some), nil }
func (e *ending) SetReadDeadline(time.Time) error  { return nil }
func (e *ending) SetWriteDeadline(time.Time) error { return nil }

// TestCallEndsWithTheAnswer tests a call that ends at the moment at which the answer to a question has
// arrived: its connection is being ended, so it must carry no record.
func TestCallEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	raw, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fake := &ending{end: cancel}
	fake.answer.Write([]byte{0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	c := &conn{Conn: fake, tcp: raw.(*net.TCPConn)}
	var got kmsg.ApiVersionsResponse
	if err := c.ask(ctx, kmsg.NewPtrApiVersionsRequest(), &got); !errors.Is(err, context.Canceled) || !c.dead {
		t.Errorf("the answer counted (%v), and the connection is dead: %t", err, c.dead)
	}
	asked := fake.written
	_, err = c.exchange(t.Context(), []byte("a record"), time.Now().Add(time.Minute), time.Minute)
	if !errors.Is(err, errEnded) || fake.written != asked {
		t.Errorf("%v, and %d bytes were written", err, fake.written-asked)
	}
	r := &Rail{}
	if r.keep(c); len(r.idle) > 0 {
		t.Error("the dead connection was kept")
	}
}

// TestScram tests a login by the example of RFC 7677, and brokers that depart from it.
func TestScram(t *testing.T) {
	t.Parallel()
	const (
		nonce = "rOprNGfwEbeRWgbNEkqO"
		first = "r=" + nonce + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ=="
		final = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	)
	begin := func() *scram {
		s := &scram{login: login{user: "user", password: "pencil"}, nonce: nonce, hash: sha256.New}
		if message, done, err := s.next(nil); string(message) != "n,,n=user,r="+nonce || done || err != nil {
			t.Errorf("%q, %t, %v", message, done, err)
		}
		return s
	}
	s := begin()
	proof, done, err := s.next([]byte(first + ",i=4096"))
	if !strings.HasSuffix(string(proof), ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=") || done || err != nil {
		t.Errorf("%q, %t, %v", proof, done, err)
	}
	if _, done, err := s.next([]byte(final)); !done || err != nil {
		t.Errorf("%t, %v", done, err)
	}
	for name, challenge := range map[string]string{
		"few iterations": first + ",i=4095", "many iterations": first + ",i=100001", "no number": first + ",i=x",
		"no salt":       strings.Replace(first, "s=W22ZaJ0SNY7soEsUEjb6gQ==", "s=", 1) + ",i=4096",
		"another nonce": strings.Replace(first, "r=rO", "r=xO", 1) + ",i=4096",
		"our nonce":     "r=" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nothing": "",
	} {
		if message, done, err := begin().next([]byte(challenge)); err == nil || done || message != nil {
			t.Errorf("%s: %q, %t, %v", name, message, done, err)
		}
	}
	for _, answer := range []string{"", "v=", "e=other-error", strings.Replace(final, "6rri", "7rri", 1)} {
		s := begin()
		if _, _, err := s.next([]byte(first + ",i=4096")); err != nil {
			t.Fatal(err)
		}
		if _, done, err := s.next([]byte(answer)); err == nil || done {
			t.Errorf("%q: the broker has proved nothing (%t)", answer, done)
		}
	}
}
