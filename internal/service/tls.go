package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// TLSFiles are a server's certificate and its key, in PEM, and the certificates that sign those of
// clients. Without the latter any client certificate is accepted as proof of its key alone. The zero value means no
// TLS: a proxy in front of the server has to provide it.
type TLSFiles struct {
	Certificate string
	Key         string
	ClientCA    string
}

const (
	// readEvery is the time between two checks of the files.
	readEvery = 2 * time.Second
	// unreadAfter is how old a check may be until the files count as unread, as on a disk that does not answer.
	unreadAfter = 5 * readEvery
	// openWithin is how long the first reading may take.
	openWithin = 10 * time.Second
	// fileMax bounds a file of certificates.
	fileMax = 1 << 20
	// trustWithin is how long client certificates are trusted by a file that can't be read any more, which may be its
	// replacement or its withdrawal. Then none is.
	trustWithin = time.Minute
)

// TLS is the TLS of a listener by its files, which Watch reads again when they change. Nil is none. Make one with
// OpenTLS. It is safe for concurrent use.
type TLS struct {
	files TLSFiles
	log   *slog.Logger

	mu           sync.Mutex
	pair, people *tlsPart    // people is nil without ClientCA
	config       *tls.Config // nil until OpenTLS has read all
	distrusting  *tls.Config // config without client certificates
}

// OpenTLS reads the files. It returns nil for the zero value, and an error if one can't be read within openWithin, or
// if the server's certificate is not valid now.
func OpenTLS(files TLSFiles, log *slog.Logger) (*TLS, error) {
	if files == (TLSFiles{}) {
		return nil, nil
	}
	return openTLS(files, readFile, log)
}

func openTLS(files TLSFiles, read func(name string) ([]byte, error), log *slog.Logger) (*TLS, error) {
	t := &TLS{files: files, log: log, pair: &tlsPart{file: "certificate", names: []string{files.Certificate, files.Key},
		read: read, parse: parsePair}}
	if files.ClientCA != "" {
		t.people = &tlsPart{file: "client_ca", names: []string{files.ClientCA}, read: read, parse: parsePeople}
	}
	timeout := time.NewTimer(openWithin)
	defer timeout.Stop()
	var all []error
	for _, part := range t.parts() {
		ended := t.check(context.Background(), part)
		select {
		case <-ended:
			t.mu.Lock()
			all = append(all, part.unread)
			t.mu.Unlock()
		case <-timeout.C:
			return nil, fmt.Errorf("%s can't be read within %s", strings.Join(part.names, " or "), openWithin)
		}
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.configure()
	return t, nil
}

// parts are the files that are read together.
func (t *TLS) parts() []*tlsPart {
	if t.people == nil {
		return []*tlsPart{t.pair}
	}
	return []*tlsPart{t.pair, t.people}
}

// Listen returns the listener with TLS; as it is without.
func (t *TLS) Listen(listener net.Listener) net.Listener {
	if t == nil {
		return listener
	}
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: t.current})
}

// Watch reads the files again and again, until the context ends. What can't be read leaves in force what was
// read before: a certificate for as long as clients accept it, and the trust in client certificates for trustWithin.
// It waits for no disk: a file that does not answer keeps neither the process from stopping nor another file unread.
func (t *TLS) Watch(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return Repeat(ctx, func() time.Duration { return readEvery }, func(ctx context.Context) error {
		for _, part := range t.parts() {
			t.check(ctx, part)
		}
		return nil
	})
}

// current is the configuration of a handshake. A client certificate is requested, and none is required.
func (t *TLS) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.trusting(time.Now()) {
		return t.distrusting, nil
	}
	return t.config, nil
}

// trusting is called with mu held.
func (t *TLS) trusting(now time.Time) bool {
	return t.people == nil || now.Sub(t.people.seenAt) < trustWithin
}

// Err returns what is at fault with the files; nil: nothing is. The listener goes on with what was read before.
func (t *TLS) Err() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	var all []error
	for _, part := range t.parts() {
		all = append(all, part.fault(now))
	}
	if !t.trusting(now) {
		all = append(all, errors.New("no client certificate is accepted until it is read"))
	}
	return errors.Join(all...)
}

// TLSFile is what is known of a file of certificates.
type TLSFile struct {
	File string // certificate or client_ca
	// Of the server's and those that signed it the one that ends first; of client CAs the one that ends last.
	Begins, Ends time.Time
	// Of several client CAs the one that ends first; zero: all end with the last.
	FirstBegins, FirstEnds time.Time
	Unread                 time.Duration // since it was last read; 0: the last check did
}

// Files returns what is known of each file of certificates.
func (t *TLS) Files() (all []TLSFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, part := range t.parts() {
		one := TLSFile{File: part.file, Begins: part.first.NotBefore, Ends: part.first.NotAfter}
		if last := part.last; last != nil && last.NotAfter.After(one.Ends) {
			one.FirstBegins, one.FirstEnds = one.Begins, one.Ends
			one.Begins, one.Ends = last.NotBefore, last.NotAfter
		}
		if part.unreadable(now) != nil || now.Sub(part.seenAt) > unreadAfter {
			one.Unread = max(now.Sub(part.seenAt), time.Second)
		}
		all = append(all, one)
	}
	return all
}

// check begins to read a part, unless that is under way, and logs each change of what is at fault. No handshake waits
// for it. The channel is closed when the part has been read.
func (t *TLS) check(ctx context.Context, part *tlsPart) (ended <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !part.since.IsZero() {
		part.tell(ctx, now, t.log)
		return nil
	}
	part.since = now
	done, next := make(chan struct{}), *part
	go func() {
		defer close(done)
		read := next.look(now)
		t.mu.Lock()
		defer t.mu.Unlock()
		next.since, next.told = time.Time{}, part.told
		*part = next
		if t.config == nil { // OpenTLS returns what is at fault
			return
		}
		part.tell(ctx, time.Now(), t.log)
		if read {
			t.configure()
		}
	}()
	return done
}

// configure puts what was read in force. It is called with mu held.
func (t *TLS) configure() {
	t.config = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{t.pair.pair}, ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"http/1.1"},
	}
	t.distrusting = t.config.Clone()
	t.distrusting.ClientAuth = tls.NoClientCert
	if t.people != nil {
		t.config.ClientCAs, t.config.ClientAuth = t.people.people, tls.VerifyClientCertIfGiven
	}
}
