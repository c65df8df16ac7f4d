package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
)

// Serve serves a listener until the context ends. Then it accepts no more connections, ends waits
// with what is known, and answers each request under way, within the drain time.
func (a *API) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: a.handler, ReadHeaderTimeout: min(5*time.Second, a.config.IdleMax), ReadTimeout: a.config.IdleMax,
		WriteTimeout: a.config.WaitMax + a.config.StoreTimeout + a.config.IdleMax, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	listener = limited(listener, a.config.ConnectionsMax)
	if a.config.TLS != (TLSFiles{}) {
		config, err := a.config.TLS.config()
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		listener = tls.NewListener(listener, config)
	}
	return service.Endpoint{Name: "the API", Server: server, Drain: func() time.Duration {
		a.drain()
		return a.config.Drain
	}}.Serve(ctx, listener)
}

// atMost accepts a connection only while fewer than its slots are open. The others wait in the
// queue of the operating system.
type atMost struct {
	net.Listener
	slots chan struct{}
	once  sync.Once
	done  chan struct{}
}

func limited(listener net.Listener, most int) net.Listener {
	return &atMost{Listener: listener, slots: make(chan struct{}, most), done: make(chan struct{})}
}

func (l *atMost) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotConn{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *atMost) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// slotConn releases its slot when it is closed.
type slotConn struct {
	net.Conn
	free func()
}

func (c *slotConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// CloseWrite lets the last answer arrive if the request was not read to its end.
func (c *slotConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// TLSFiles are the API's certificate and its key, in PEM, and the certificates that sign those of
// clients. Without the latter any client certificate is accepted as proof of its key, and tokens
// are bound to keys. The files are read again when they change. The zero value means no TLS: a
// proxy in front of the API has to provide it.
type TLSFiles struct {
	Certificate string
	Key         string
	ClientCA    string
}

// config requests a client certificate, and does not require one.
func (f TLSFiles) config() (*tls.Config, error) {
	r := &reloading{files: f}
	if _, err := r.current(nil); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: r.current}, nil
}

// reloadEvery is the shortest time between two checks of the files.
const reloadEvery = 2 * time.Second

// reloading holds the present configuration of the files.
type reloading struct {
	files TLSFiles

	mu      sync.Mutex
	checked time.Time
	marks   string // sizes and times of the files that were read
	config  *tls.Config
}

// current reads the files if they have changed. If one can't be read, as during its replacement,
// the configuration remains as it was.
func (r *reloading) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.config != nil && time.Since(r.checked) < reloadEvery {
		return r.config, nil
	}
	r.checked = time.Now()
	marks := r.files.marks()
	if r.config != nil && marks == r.marks {
		return r.config, nil
	}
	read, err := r.files.read()
	if err != nil {
		if r.config != nil {
			return r.config, nil
		}
		return nil, err
	}
	r.config, r.marks = read, marks
	return read, nil
}

func (f TLSFiles) marks() string {
	var text strings.Builder
	for _, name := range []string{f.Certificate, f.Key, f.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			text.WriteString(fmt.Sprint(name, info.Size(), info.ModTime().UnixNano(), " "))
		}
	}
	return text.String()
}

func (f TLSFiles) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("the API's certificate: %w", err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"http/1.1"},
	}
	if f.ClientCA != "" {
		text, err := os.ReadFile(f.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("certificates that sign those of clients: %w", err)
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", f.ClientCA)
		}
	}
	return config, nil
}
