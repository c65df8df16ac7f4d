package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestOverTheLedger tests the whole path: a token, an enqueue that waits, its outcome by a worker,
// and the separation of two participants.
func TestOverTheLedger(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	config := func(login string) ledger.Config { return ledger.Config{URL: cell.URL(login), Cell: cell.Schema} }
	store, err := door.Open(t.Context(), config(celltest.API))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	exec, err := executor.Open(t.Context(), config(celltest.Relayer))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Close)
	made, err := api.New(api.Config{}, store, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(made.Handler())
	t.Cleanup(server.Close)
	admin := cell.Conn(t, "")
	caller := func(participant string) func(method, path, body string, headers ...string) answer {
		token, _, err := operator.CreateToken(t.Context(), admin, cell.Schema, operator.NewToken{
			Name: participant, Participants: []string{participant}, Verbs: []string{"ENQUEUE", "READ", "CANCEL"},
			ExpiresAt: time.Now().Add(time.Hour), Reason: "a test",
		})
		if err != nil {
			t.Fatal(err)
		}
		d := &fakeDoor{t: t, serve: server}
		return func(method, path, body string, headers ...string) answer {
			return d.call(method, path, body, append(headers, "Authorization", "Bearer "+token)...)
		}
	}
	one, two := caller("p1"), caller("p2")
	want := &fakeDoor{t: t}

	var waited answer
	var all sync.WaitGroup
	all.Go(func() {
		waited = one("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1", "Prefer", "wait=20")
	})
	claim := claimed(t, exec)
	decision := payment.Policy{}.WithDefaults().Decide(claim, payment.Answer{Result: payment.ResultAccepted})
	_, err = exec.Turn(t.Context(), outbox.Turn{Finished: []payment.ID{claim.ClaimID}, Outcomes: []payment.Outcome{{
		AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Decision: decision,
		Result:        payment.ResultAccepted,
		RailReference: "bank-ref-1", WorkerID: "worker", ProfileVersion: 1, RenderVersion: "render/1",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	all.Wait()
	want.want("the outcome", waited, 200, "state", "DISPATCHED", "certainty", "ACCEPTED", "rail_reference", "bank-ref-1",
		"idempotency_key", "k-1")
	want.want("the same again", one("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1"), 200, "state",
		"DISPATCHED", "replayed", "true")
	want.want("a second key", one("POST", "/v1/instructions", valid, "Idempotency-Key", "k-2"), 409, "code", "RH007")
	want.want("what its rail does not know", one("POST", "/v1/instructions", strings.Replace(valid, `"bank"`, `"banc"`, 1),
		"Idempotency-Key", "k-3"), 422, "code", "RH003", "field", "rail_type")
	want.want("a character that PostgreSQL can't keep", one("POST", "/v1/instructions",
		strings.Replace(valid, `"i-1"`, `"i\u0000"`, 1), "Idempotency-Key", "k-4"), 400)
	path := "/v1/instructions/" + waited.field("outbox_id")
	want.want("its attempts", one("GET", path+"/attempts", ""), 200)
	want.want("its list", one("GET", "/v1/instructions?participant_id=p1", ""), 200)
	want.want("a cancel that is late", one("POST", path+"/cancel", `{"reason": "a test"}`), 409, "code", "RH020")

	want.want("another's status", two("GET", path, ""), 404)
	want.want("another's attempts", two("GET", path+"/attempts", ""), 404)
	want.want("another's cancel", two("POST", path+"/cancel", `{"reason": "a test"}`), 404)
	want.want("another's list", two("GET", "/v1/instructions?participant_id=p1", ""), 403)
	want.want("for another", two("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1"), 403)
	want.want("the same ids and key of another", two("POST", "/v1/instructions", strings.Replace(valid, "p1", "p2", 1),
		"Idempotency-Key", "k-1"), 201)
	if err := made.NoteUses(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := cell.Int(`SELECT count(*) FROM railhead.payment_api_uses WHERE uses > 0`); got != 2 {
		t.Errorf("uses of %d tokens are noted", got)
	}
}

// claimed claims the one instruction as soon as it is there.
func claimed(t *testing.T, exec *executor.Executor) payment.Claim {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		result, err := exec.Turn(t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
			ClaimID: payment.NewID(), WorkerID: "worker",
			Lanes: []outbox.Lane{{RailType: "bank", Free: 1, Oldest: 1, ProfileVersion: 1, RenderVersion: "render/1"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Claims) > 0 {
			return result.Claims[0]
		}
	}
	t.Fatal("nothing came in")
	return payment.Claim{}
}

// TestCertificates tests that a token bound to a client certificate works only with its key, and
// that the API's own certificate is read again when it changes.
func TestCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := service.TLSFiles{Certificate: filepath.Join(dir, "api.pem"), Key: filepath.Join(dir, "api.key")}
	first := writeCertificate(t, files, 1)
	kept, err := service.OpenTLS(files, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(t, api.Config{TLS: kept})
	addr, _ := served(t, d)
	client, sum := clientCertificate(t)
	d.fake.token.Certificate = sum
	try := func(certificates ...tls.Certificate) (int, *x509.Certificate) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+addr+"/v1/instructions?participant_id=p1",
			nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+aToken)
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode, response.TLS.PeerCertificates[0]
	}
	if status, shown := try(); status != 401 || !shown.Equal(first) {
		t.Errorf("without a certificate: %d", status)
	}
	other, _ := clientCertificate(t)
	if status, _ := try(other); status != 401 {
		t.Errorf("with another certificate: %d", status)
	}
	if status, _ := try(client); status != 200 {
		t.Errorf("with its certificate: %d", status)
	}
	second := writeCertificate(t, files, 2)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		status, shown := try(client)
		if status == 200 && shown.Equal(second) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still shows the first certificate: %d", status)
		}
	}
}

func writeCertificate(t *testing.T, files service.TLSFiles, serial int64) *x509.Certificate {
	t.Helper()
	der, key := newCertificate(t, serial)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{files.Key: {Type: "PRIVATE KEY", Bytes: private},
		files.Certificate: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func clientCertificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	der, key := newCertificate(t, time.Now().UnixNano())
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, sum[:]
}

func newCertificate(t *testing.T, serial int64) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// TestConnectionsAreBounded tests that callers beyond the bound wait, and are served in turn.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{ConnectionsMax: 2})
	addr, _ := served(t, d)
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			transport := &http.Transport{DisableKeepAlives: true}
			request, _ := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "POST",
				"http://"+addr+"/v1/instructions", strings.NewReader(strings.Replace(valid, "i-1", fmt.Sprintf("i-%d", n), 1)))
			request.Header.Set("Authorization", "Bearer "+aToken)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Idempotency-Key", fmt.Sprintf("k-%d", n))
			response, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			if response.StatusCode != 201 {
				t.Errorf("answered %d", response.StatusCode)
			}
		})
	}
	all.Wait()
}
