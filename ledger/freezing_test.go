package ledger_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// freezing is a proxy that lets nothing through while its gate is locked: its connections stay.
type freezing struct {
	gate sync.RWMutex
	addr string
	each atomic.Pointer[func([]byte)] // is called with what is sent, before it is sent on; nil: nothing is
}

// thawed returns once the gate is open.
func (f *freezing) thawed() {
	f.gate.RLock()
	defer f.gate.RUnlock()
}

func (f *freezing) pump(to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		f.thawed()
		if each := f.each.Load(); each != nil {
			(*each)(buffer[:n])
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// before returns a proxy before the server of a URL, and the URL that leads through it.
func before(t *testing.T, at string) (*freezing, string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	network, target := "tcp", u.Host
	if host := u.Query().Get("host"); strings.HasPrefix(host, "/") {
		port := u.Query().Get("port")
		if port == "" {
			port = u.Port()
		}
		network, target = "unix", host+"/.s.PGSQL."+port
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	f := &freezing{addr: listener.Addr().String()}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(network, target)
			if err != nil {
				in.Close()
				continue
			}
			go func() { f.pump(out, in); out.Close() }()
			go func() { f.pump(in, out); in.Close() }()
		}
	}()
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = f.addr, query.Encode()
	return f, u.String()
}
