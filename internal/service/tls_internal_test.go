package service

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// issued is a certificate with its key.
type issued struct {
	whole *x509.Certificate
	key   *ecdsa.PrivateKey
}

// issue signs a certificate that is valid between two times; without a signer it signs itself, and others.
func issue(t *testing.T, from, to time.Time, signer *issued) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: rand.Text()}, NotBefore: from,
		NotAfter: to, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if signer == nil {
		about.IsCA, about.BasicConstraintsValid = true, true
		signer = &issued{about, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, about, signer.whole, key.Public(), signer.key)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return issued{whole, key}
}

func (i issued) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.whole.Raw})
}

// tlsWorld has the files of a listener, each write of which has a time of its own.
type tlsWorld struct {
	t      *testing.T
	files  TLSFiles
	writes int
	log    bytes.Buffer
}

func newTLSWorld(t *testing.T) *tlsWorld {
	dir := t.TempDir()
	return &tlsWorld{t: t, files: TLSFiles{Certificate: filepath.Join(dir, "a.pem"), Key: filepath.Join(dir, "a.key"),
		ClientCA: filepath.Join(dir, "people.pem")}}
}

func (w *tlsWorld) write(name string, text []byte) {
	w.t.Helper()
	w.writes++
	at := time.Unix(int64(w.writes), 0)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chtimes(name, at, at); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tlsWorld) server(one issued) {
	w.t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(one.key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(w.files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	w.write(w.files.Certificate, one.certificate())
}

func (w *tlsWorld) open() (*TLS, error) {
	return OpenTLS(w.files, slog.New(slog.NewTextHandler(&w.log, nil)))
}

// trusts reports whether a handshake now asks for client certificates, and accepts those that one has signed.
func (w *tlsWorld) trusts(kept *TLS, signer issued) bool {
	w.t.Helper()
	config, err := kept.current(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	client := issue(w.t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), &signer)
	_, err = client.whole.Verify(x509.VerifyOptions{Roots: config.ClientCAs, CurrentTime: time.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return config.ClientAuth == tls.VerifyClientCertIfGiven && config.ClientCAs != nil && err == nil
}

// TestWithdrawnClientCA: a file that can't be read ends the trust in client certificates within a minute, is logged
// once, and once when it can be read again.
func TestWithdrawnClientCA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		w := newTLSWorld(t)
		people := issue(t, now.Add(-time.Hour), now.Add(time.Hour), nil)
		w.server(issue(t, now.Add(-time.Hour), now.Add(time.Hour), nil))
		w.write(w.files.ClientCA, people.certificate())
		kept, err := w.open()
		if err != nil || kept.Err() != nil || !w.trusts(kept, people) {
			t.Fatalf("it begins with %v, %v", err, kept.Err())
		}
		go kept.Watch(t.Context())
		pass(5 * time.Minute)
		if !w.trusts(kept, people) || w.log.Len() > 0 {
			t.Errorf("files that do not change end the trust: %s", &w.log)
		}
		w.write(w.files.ClientCA, []byte("withdrawn\n"))
		pass(30 * time.Second)
		if !w.trusts(kept, people) {
			t.Error("a file that is being replaced ends the trust at once")
		}
		if kept.Err() == nil || unread(kept, "client_ca") < 20*time.Second || unread(kept, "certificate") > 0 {
			t.Errorf("it says %v, %v", kept.Err(), kept.Files())
		}
		pass(31 * time.Second)
		if w.trusts(kept, people) {
			t.Error("client certificates are still trusted")
		}
		if n := strings.Count(w.log.String(), "\n"); n != 1 {
			t.Errorf("it logs %d lines:\n%s", n, &w.log)
		}
		w.write(w.files.ClientCA, people.certificate())
		pass(3 * time.Second)
		if !w.trusts(kept, people) || kept.Err() != nil || unread(kept, "client_ca") > 0 {
			t.Errorf("it says %v, %v", kept.Err(), kept.Files())
		}
		if n := strings.Count(w.log.String(), "\n"); n != 2 {
			t.Errorf("it logs %d lines:\n%s", n, &w.log)
		}
	})
}

// TestClientCAOfTheSameTime: a file with another content counts as one, whatever its size and times say, as does one
// that may no longer be read: these are as they were. And a file that is none of certificates is not read whole.
func TestClientCAOfTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		w := newTLSWorld(t)
		people := issue(t, now, now.Add(time.Hour), nil)
		w.server(issue(t, now, now.Add(time.Hour), nil))
		w.write(w.files.ClientCA, people.certificate())
		kept, err := w.open()
		if err != nil {
			t.Fatal(err)
		}
		go kept.Watch(t.Context())
		w.writes-- // the time of the write before
		w.write(w.files.ClientCA, bytes.Repeat([]byte("-"), len(people.certificate())))
		pass(3 * time.Second)
		if kept.Err() == nil || unread(kept, "client_ca") == 0 || w.log.Len() == 0 {
			t.Errorf("it says %v, %v", kept.Err(), kept.Files())
		}
		pass(time.Minute)
		if w.trusts(kept, people) {
			t.Error("client certificates are still trusted")
		}
		w.write(w.files.ClientCA, append(people.certificate(), make([]byte, fileMax)...))
		pass(3 * time.Second)
		if err := kept.Err(); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("of a file of more than 1 MiB it says %v", err)
		}
		w.write(w.files.ClientCA, people.certificate())
		pass(3 * time.Second)
		if !w.trusts(kept, people) || kept.Err() != nil {
			t.Errorf("of the file that is there again it says %v", kept.Err())
		}
	})
}

// pass lets time pass, with all that is done within it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func unread(kept *TLS, file string) time.Duration {
	for _, each := range kept.Files() {
		if each.File == file {
			return each.Unread
		}
	}
	return -1
}

// TestReplacedClientCA: one is in force at once, also while the key of the server can't be read.
func TestReplacedClientCA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		w := newTLSWorld(t)
		before, after := issue(t, now, now.Add(time.Hour), nil), issue(t, now, now.Add(time.Hour), nil)
		w.server(issue(t, now, now.Add(time.Hour), nil))
		w.write(w.files.ClientCA, before.certificate())
		kept, err := w.open()
		if err != nil {
			t.Fatal(err)
		}
		go kept.Watch(t.Context())
		w.write(w.files.Key, nil)
		w.write(w.files.ClientCA, after.certificate())
		pass(3 * time.Second)
		if w.trusts(kept, before) || !w.trusts(kept, after) {
			t.Error("the one before is in force")
		}
		if kept.Err() == nil || unread(kept, "certificate") == 0 {
			t.Errorf("it says %v, %v", kept.Err(), kept.Files())
		}
	})
}

// TestExpiredCertificate: a listener does not start with one, or with one that is not valid yet, does not take one in
// place of one that is, and says so when its own expires.
func TestExpiredCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		w := newTLSWorld(t)
		people := issue(t, now, now.Add(time.Minute), nil)
		w.write(w.files.ClientCA, people.certificate())
		past := issue(t, now.Add(-2*time.Hour), now.Add(-time.Hour), nil)
		future := issue(t, now.Add(time.Hour), now.Add(2*time.Hour), nil)
		for _, each := range []issued{past, future} {
			w.server(each)
			if _, err := w.open(); err == nil {
				t.Errorf("it starts with one from %s to %s", each.whole.NotBefore, each.whole.NotAfter)
			}
		}
		valid := issue(t, now.Add(-time.Hour), now.Add(time.Hour), nil)
		w.server(valid)
		kept, err := w.open()
		if err != nil {
			t.Fatal(err)
		}
		go kept.Watch(t.Context())
		w.server(past)
		pass(3 * time.Second)
		config, _ := kept.current(nil)
		if !bytes.Equal(config.Certificates[0].Certificate[0], valid.whole.Raw) || unread(kept, "certificate") == 0 {
			t.Errorf("it has taken the one that has expired: %v", kept.Files())
		}
		w.server(valid)
		pass(3 * time.Second)
		if kept.Err() != nil {
			t.Errorf("it says %v", kept.Err())
		}
		pass(2 * time.Minute)
		if kept.Err() == nil {
			t.Error("client CAs that have expired are not named")
		}
		before := strings.Count(w.log.String(), "\n")
		pass(2 * time.Hour)
		if lines := strings.Count(w.log.String(), "\n") - before; lines != 1 || unread(kept, "certificate") != 0 {
			t.Errorf("of the server's certificate that has expired it logs %d lines:\n%s", lines, &w.log)
		}
		for _, each := range kept.Files() {
			if each.File == "certificate" && !each.Ends.Equal(valid.whole.NotAfter) {
				t.Errorf("it ends at %s", each.Ends)
			}
		}
	})
}

// again is a certificate of the same name and key between two other times, signed by itself.
func (i issued) again(t *testing.T, from, to time.Time) issued {
	t.Helper()
	about := *i.whole
	about.NotBefore, about.NotAfter = from, to
	der, err := x509.CreateCertificate(rand.Reader, &about, &about, i.key.Public(), i.key)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return issued{whole, i.key}
}

// TestEndsOfFilesOfTLS: a certificate ends with the first of those that signed it, whatever else its file has; and of
// several client CAs the first end is known, and named once it is past.
func TestEndsOfFilesOfTLS(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	day := func(n int) time.Time { return now.AddDate(0, 0, n) }
	other, expired := issue(t, day(-9), day(-1), nil), issue(t, day(-9), day(-1), nil)
	root := issue(t, day(-9), day(90), nil)
	short := issue(t, day(-9), day(30), nil)
	for name, each := range map[string]struct {
		chain []issued
		ends  time.Time
	}{
		"alone":                            {[]issued{issue(t, day(-1), day(60), &root)}, day(60)},
		"its signer ends later":            {[]issued{issue(t, day(-1), day(60), &root), root}, day(60)},
		"its signer ends first":            {[]issued{issue(t, day(-1), day(60), &short), short}, day(30)},
		"another one has expired":          {[]issued{issue(t, day(-1), day(60), &root), root, other}, day(60)},
		"a second signer has expired":      {[]issued{issue(t, day(-1), day(60), &root), root.again(t, day(-9), day(-1)), root}, day(60)},
		"its signer has expired":           {[]issued{issue(t, day(-1), day(60), &expired), expired}, day(-1)},
		"another one is in front of those": {[]issued{issue(t, day(-1), day(60), &short), other, short}, day(30)},
	} {
		w := newTLSWorld(t)
		w.server(each.chain[0])
		var text []byte
		for _, one := range each.chain {
			text = append(text, one.certificate()...)
		}
		w.write(w.files.Certificate, text)
		w.write(w.files.ClientCA, append(root.certificate(), other.certificate()...))
		kept, err := w.open()
		if err != nil {
			t.Fatal(name, err)
		}
		for _, file := range kept.Files() {
			switch file.File {
			case "certificate":
				if !file.Ends.Equal(each.ends) || !file.FirstEnds.IsZero() {
					t.Errorf("%s: it ends at %s, want %s", name, file.Ends, each.ends)
				}
			default:
				if !file.Ends.Equal(day(90)) || !file.FirstEnds.Equal(day(-1)) || !file.FirstBegins.Equal(day(-9)) {
					t.Errorf("%s: client CAs end from %s to %s", name, file.FirstEnds, file.Ends)
				}
			}
		}
		if err := kept.Err(); err == nil || !strings.Contains(err.Error(), w.files.ClientCA) {
			t.Errorf("%s: of a client CA that has expired it says %v", name, err)
		}
		w.write(w.files.ClientCA, root.certificate())
		<-kept.check(t.Context(), kept.people)
		if files := kept.Files(); !files[1].FirstEnds.IsZero() || kept.Err() != nil {
			t.Errorf("%s: of one client CA it says %v, %v", name, files, kept.Err())
		}
	}
}

// TestHandshakeLog: failed handshakes are logged, once a minute, without what a client wrote into its certificate; a
// probe of a balancer is none.
func TestHandshakeLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := HandshakeLog(slog.New(slog.NewTextHandler(&out, nil)))
		log.Print("http: panic serving 127.0.0.1:9: SECRET")
		log.Print("http: TLS handshake error from 127.0.0.1:9: EOF")
		if out.Len() > 0 {
			t.Errorf("it logs %s", &out)
		}
		for range 100 {
			log.Print(`http: TLS handshake error from [::1]:9: tls: failed to verify certificate: x509: certificate signed by ` +
				`unknown authority (possibly because of "x509" while trying to verify "SECRET")`)
			time.Sleep(time.Second)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 2 || strings.Contains(out.String(), "SECRET") ||
			!strings.Contains(out.String(), "failures=60") {
			t.Errorf("it logs %d lines:\n%s", lines, &out)
		}
	})
}
