package service

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// tlsPart is what was read of files that belong together.
type tlsPart struct {
	file  string // as in TLSFile
	names []string
	read  func(name string) ([]byte, error)
	parse func(names []string, texts [][]byte) (tlsContent, error)
	tlsContent
	digest [sha256.Size]byte // of the files of which the content is
	seenAt time.Time         // when the files were last read with that content
	unread error             // why they could not be read in the last check
	told   string            // the fault that was logged last
	since  time.Time         // when the reading that is under way began; zero: none is
}

// tlsContent is what files contain: the server's certificate, or those that sign the certificates of clients.
type tlsContent struct {
	pair   tls.Certificate
	people *x509.CertPool
	whole  *x509.Certificate // the server's; nil of the others
	first  *x509.Certificate // of the server's and those that signed it, or of the others, the one that ends first
	last   *x509.Certificate // of the others the one that ends last
}

// look reads the files, from now on. It reports whether they have another content now. Their times and sizes say too
// little: a file that may no longer be read has those that it had.
func (p *tlsPart) look(now time.Time) bool {
	texts, digest, err := readFiles(p.names, p.read)
	if p.unread = err; err != nil {
		return false
	}
	if p.first != nil && digest == p.digest {
		p.seenAt = now
		return false
	}
	content, err := p.parse(p.names, texts)
	if p.unread = err; err != nil {
		return false
	}
	p.tlsContent, p.digest, p.seenAt = content, digest, now
	return true
}

// unreadable is why the files could not be read; nil: they could.
func (p *tlsPart) unreadable(now time.Time) error {
	if !p.since.IsZero() && now.Sub(p.since) > unreadAfter {
		return fmt.Errorf("%s: its disk has not answered since %s", strings.Join(p.names, " or "),
			p.since.UTC().Format(time.RFC3339))
	}
	return p.unread
}

// fault is why the files could not be read, or that what is in force has expired; nil: neither.
func (p *tlsPart) fault(now time.Time) error {
	if err := p.unreadable(now); err != nil {
		return err
	}
	if p.whole != nil {
		return expired(p.names[0], p.whole, now)
	}
	return expired(p.names[0], p.first, now)
}

// tell logs another fault than the one that was logged last, with what follows from it, and that there is none now.
func (p *tlsPart) tell(ctx context.Context, now time.Time, log *slog.Logger) {
	fault := p.fault(now)
	switch {
	case fault == nil && p.told != "":
		log.InfoContext(ctx, "the files of TLS are in force again", "file", p.names[0])
		p.told = ""
	case fault != nil && p.told != fault.Error():
		log.ErrorContext(ctx, "a file of TLS is at fault: "+p.follows(now), "file", p.names[0], "error", fault)
		p.told = fault.Error()
	}
}

// follows is what follows from a fault.
func (p *tlsPart) follows(now time.Time) string {
	ofServer, unread := p.file == "certificate", p.unreadable(now) != nil
	switch {
	case ofServer && unread:
		return "clients are shown the one that was read before"
	case ofServer:
		return "clients refuse it"
	case unread:
		return "client certificates are accepted by the one that was read before, for at most " + trustWithin.String()
	default:
		return "no client certificate that it signed is accepted"
	}
}
