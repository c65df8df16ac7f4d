package service

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// TLSFiles are a server's certificate and its key, in PEM, and the certificates that sign those of
// clients. Without the latter any client certificate is accepted as proof of its key alone. The
// files are read again when they change. The zero value means no TLS: a proxy in front of the
// server has to provide it.
type TLSFiles struct {
	Certificate string
	Key         string
	ClientCA    string
}

// Listen returns the listener with TLS by the files, or as it is for the zero value. It is returned
// with an error too, so that the caller can close it.
func (f TLSFiles) Listen(listener net.Listener) (net.Listener, error) {
	if f == (TLSFiles{}) {
		return listener, nil
	}
	config, err := f.config()
	if err != nil {
		return listener, err
	}
	return tls.NewListener(listener, config), nil
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
		return nil, fmt.Errorf("the server's certificate: %w", err)
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
