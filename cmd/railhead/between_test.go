package main

import (
	"bytes"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// fate is what becomes of bytes between a command and its server.
type fate int

// The fates.
const (
	pass   fate = iota
	last        // they arrive, and then every connection ends, and none is made any more
	lost        // they do not arrive, and their connection ends
	frozen      // neither they nor any others arrive from then on, and no connection ends
)

// between stands between a command and the server of its cell. It decides about what the command asks and what the
// server answers; nil: it passes.
type between struct {
	asked, answered func(b []byte) fate

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	gone     bool // last came
	still    bool // frozen came
}

// committed is a server's answer to a commit.
func committed(b []byte) bool { return bytes.Contains(b, []byte("COMMIT\x00")) }

// once is a fate of the first bytes that are so.
func once(so func([]byte) bool, what fate) func([]byte) fate {
	var mu sync.Mutex
	return func(b []byte) fate {
		mu.Lock()
		defer mu.Unlock()
		if what == pass || !so(b) {
			return pass
		}
		was := what
		what = pass
		return was
	}
}

// through is a command whose operator connects through b.
func (c command) through(cell *celltest.Cell, b *between) command {
	c.t.Helper()
	return c.throughAs("RAILHEAD_OPERATOR_URL", cell.URL(celltest.Operator), b)
}

// throughAs is a command that connects through b for one variable.
func (c command) throughAs(variable, to string, b *between) command {
	c.t.Helper()
	config, err := pgx.ParseConfig(to)
	if err != nil {
		c.t.Fatal(err)
	}
	network, address := "tcp", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	if strings.HasPrefix(config.Host, "/") {
		network, address = "unix", config.Host+"/.s.PGSQL."+strconv.Itoa(int(config.Port))
	}
	if b.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(b.end)
	go b.serve(network, address)
	over := url.URL{Scheme: "postgres", User: url.UserPassword(config.User, config.Password),
		Host: b.listener.Addr().String(), Path: "/" + config.Database, RawQuery: "sslmode=disable"}
	c.env = append(slices.Clone(c.env), variable+"="+over.String())
	return c
}

// serve takes connections until the listener is closed.
func (b *between) serve(network, address string) {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(network, address)
		b.mu.Lock()
		if err != nil || b.gone {
			b.mu.Unlock()
			client.Close() //nolint:errcheck // it is refused
			continue
		}
		b.conns = append(b.conns, client, server)
		b.mu.Unlock()
		go b.carry(server, client, b.asked)
		go b.carry(client, server, b.answered)
	}
}

// carry copies from one side to the other until either ends.
func (b *between) carry(to, from net.Conn, judge func([]byte) fate) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		what := pass
		if n > 0 && judge != nil {
			what = judge(buffer[:n])
		}
		b.mu.Lock()
		b.still = b.still || what == frozen
		held := b.still
		b.mu.Unlock()
		if held {
			if err != nil {
				return // the other side notices nothing
			}
			continue
		}
		if what != lost && n > 0 {
			_, _ = to.Write(buffer[:n]) // a side that is gone ends the other one, below
		}
		if what == last {
			b.end()
		}
		if err != nil || what == lost {
			from.Close() //nolint:errcheck // it is over
			to.Close()   //nolint:errcheck // it is over
			return
		}
	}
}

// end ends every connection.
func (b *between) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	b.listener.Close() //nolint:errcheck // it is over
	for _, conn := range b.conns {
		conn.Close() //nolint:errcheck // it is over
	}
}
