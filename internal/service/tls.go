package service

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
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
	pair, people tlsPart // people is only used with ClientCA
	config       *tls.Config
	distrusting  *tls.Config // config without client certificates
}

// OpenTLS reads the files. It returns nil for the zero value, and an error if one can't be read, or if the server's
// certificate is not valid now.
func OpenTLS(files TLSFiles, log *slog.Logger) (*TLS, error) {
	if files == (TLSFiles{}) {
		return nil, nil
	}
	t := &TLS{
		files: files, log: log, pair: tlsPart{file: "certificate", names: []string{files.Certificate, files.Key}},
		people: tlsPart{file: "client_ca", names: []string{files.ClientCA}},
	}
	if t.check(context.Background()); t.pair.unread != nil || t.people.unread != nil {
		return nil, errors.Join(t.pair.unread, t.people.unread)
	}
	return t, nil
}

// Listen returns the listener with TLS; as it is without.
func (t *TLS) Listen(listener net.Listener) net.Listener {
	if t == nil {
		return listener
	}
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: t.current})
}

// Watch reads files that have changed, until the context ends. What can't be read leaves in force what was
// read before: a certificate for as long as clients accept it, and the trust in client certificates for trustWithin.
func (t *TLS) Watch(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return Repeat(ctx, func() time.Duration { return readEvery }, func(ctx context.Context) error {
		t.check(ctx)
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
	return t.files.ClientCA == "" || now.Sub(t.people.seenAt) < trustWithin
}

// Err returns what is at fault with the files; nil: nothing is. The listener goes on with what was read before.
func (t *TLS) Err() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	all := []error{t.pair.fault(now)}
	if t.files.ClientCA != "" {
		all = append(all, t.people.fault(now))
	}
	if !t.trusting(now) {
		all = append(all, errors.New("no client certificate is accepted until it is read"))
	}
	return errors.Join(all...)
}

// TLSFile is what is known of a file of certificates.
type TLSFile struct {
	File         string        // certificate or client_ca
	Begins, Ends time.Time     // of the server's certificate that ends first, or of the client CA that ends last
	Unread       time.Duration // since it was last read; 0: the last check did
}

// Files returns what is known of each file of certificates.
func (t *TLS) Files() (all []TLSFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, part := range []*tlsPart{&t.pair, &t.people} {
		if part.names[0] == "" {
			continue
		}
		one := TLSFile{File: part.file, Begins: part.first.NotBefore, Ends: part.first.NotAfter}
		if part.unread != nil || now.Sub(part.seenAt) > unreadAfter {
			one.Unread = max(now.Sub(part.seenAt), time.Second)
		}
		all = append(all, one)
	}
	return all
}

// check reads the files, and logs each change of what is at fault. Only one is under way, and no handshake waits
// for its disk.
func (t *TLS) check(ctx context.Context) {
	t.mu.Lock()
	pair, people := t.pair, t.people
	t.mu.Unlock()
	read := pair.look(parsePair)
	if t.files.ClientCA != "" {
		read = people.look(parsePeople) || read
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pair, t.people = pair, people
	if now := time.Now(); t.config != nil { // the first check is that of OpenTLS, which returns what is at fault
		t.pair.tell(ctx, now, t.log, "clients are shown the one that was read before", "clients refuse it")
		if t.files.ClientCA != "" {
			t.people.tell(ctx, now, t.log, "client certificates are accepted by the one that was read before, for at most "+
				trustWithin.String(), "no client certificate that it signed is accepted")
		}
	}
	if !read || t.pair.first == nil {
		return
	}
	t.config = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{t.pair.pair}, ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"http/1.1"},
	}
	t.distrusting = t.config.Clone()
	t.distrusting.ClientAuth = tls.NoClientCert
	if t.files.ClientCA != "" {
		t.config.ClientCAs, t.config.ClientAuth = t.people.people, tls.VerifyClientCertIfGiven
	}
}

// tlsPart is what was read of files that belong together.
type tlsPart struct {
	file  string // as in TLSFile
	names []string
	tlsContent
	digest [sha256.Size]byte // of the files of which the content is
	seenAt time.Time         // when the files were last read with that content
	unread error             // why they could not be read in the last check
	told   string            // the fault that was logged last
}

// tlsContent is what files contain: the server's certificate, or those that sign the certificates of clients.
type tlsContent struct {
	pair   tls.Certificate
	people *x509.CertPool
	whole  *x509.Certificate // the server's, or the one of the others that ends last
	first  *x509.Certificate // as in TLSFile
}

// look reads the files. It reports whether they have another content now. Their times and sizes say too little: a file
// that may no longer be read has those that it had.
func (p *tlsPart) look(parse func(names []string, texts [][]byte) (tlsContent, error)) bool {
	now := time.Now()
	texts, digest, err := readFiles(p.names)
	if p.unread = err; err != nil {
		return false
	}
	if p.first != nil && digest == p.digest {
		p.seenAt = now
		return false
	}
	content, err := parse(p.names, texts)
	if p.unread = err; err != nil {
		return false
	}
	p.tlsContent, p.digest, p.seenAt = content, digest, now
	return true
}

// fault is why the files could not be read, or that what is in force has expired; nil: neither.
func (p *tlsPart) fault(now time.Time) error {
	if p.unread != nil {
		return p.unread
	}
	return expired(p.names[0], p.whole, now)
}

// tell logs another fault than the one that was logged last, with what follows from it, and that there is none now.
func (p *tlsPart) tell(ctx context.Context, now time.Time, log *slog.Logger, unread, expired string) {
	fault := p.fault(now)
	switch {
	case fault == nil && p.told != "":
		log.InfoContext(ctx, "the files of TLS are in force again", "file", p.names[0])
		p.told = ""
	case fault != nil && p.told != fault.Error():
		follows := unread
		if p.unread == nil {
			follows = expired
		}
		log.ErrorContext(ctx, "a file of TLS is at fault: "+follows, "file", p.names[0], "error", fault)
		p.told = fault.Error()
	}
}
