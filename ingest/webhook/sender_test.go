package webhook

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/event"
	"github.com/railhead-pay/railhead/payment"
)

const twoSecrets = `
endpoints:
  - id: shop
    url: ADDRESS
    secrets: [env:NEW, env:OLD]
    signing_key: env:KEY
    participants: [p1]
    allow_private: true
    timeout: 1s
`

func secretsOf(t *testing.T) (getenv func(string) string, public ed25519.PublicKey) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"NEW": "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 24))),
		"OLD": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32))),
		"KEY": "whsk_" + base64.StdEncoding.EncodeToString(key),
	}
	return func(name string) string { return values[name] }, public
}

func senderFor(t *testing.T, address string, getenv func(string) string) *sender {
	t.Helper()
	file, err := Parse([]byte(strings.Replace(twoSecrets, "ADDRESS", address, 1)))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := newSigner(file.Endpoints[0], getenv)
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(file.Endpoints[0], signer, time.Now)
	t.Cleanup(s.close)
	return s
}

var told = payment.Event{
	AttemptID: payment.ID{1, 2, 3}, Type: payment.EventDispatched, OutboxID: payment.ID{9}, InstructionID: "INV-1",
	ParticipantID: "p1", SequenceID: 4,
	AttemptNo: 2, State: payment.Dispatched, CreatedAt: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC), RailType: "bank",
	RailReference: "RS1",
}

// TestDeliveryIsSigned checks each signature by the definition of Standard Webhooks, with code of
// its own.
func TestDeliveryIsSigned(t *testing.T) {
	t.Parallel()
	getenv, public := secretsOf(t)
	var header http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	if said := senderFor(t, server.URL+"/hook?key=1", getenv).send(t.Context(), told); !said.taken || said.code != 204 {
		t.Fatalf("%+v", said)
	}
	signed := header.Get("webhook-id") + "." + header.Get("webhook-timestamp") + "." + string(body)
	for _, key := range []string{strings.Repeat("n", 24), strings.Repeat("o", 32)} {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(signed))
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if !strings.Contains(header.Get("webhook-signature")+" ", want+" ") {
			t.Errorf("%s is not in %s", want, header.Get("webhook-signature"))
		}
	}
	_, asymmetric, _ := strings.Cut(header.Get("webhook-signature"), " v1a,")
	signature, err := base64.StdEncoding.DecodeString(asymmetric)
	if err != nil || !ed25519.Verify(public, []byte(signed), signature) {
		t.Errorf("the Ed25519 signature %q does not verify", asymmetric)
	}
	var e event.Event
	if err := json.Unmarshal(body, &e); err != nil || e != event.Of(told) || e.ID != header.Get("webhook-id") ||
		header.Get("Content-Type") != "application/json" {
		t.Errorf("it was told %s as %v", body, header)
	}
}

// docsBlock is the block of a page that begins so.
func docsBlock(t *testing.T, page, begins string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "\n"+begins)
	block, _, ended := strings.Cut(block, "\n```")
	if !found || !ended {
		t.Fatalf("docs/%s has no block that begins with %q", page, begins)
	}
	return begins + block + "\n"
}

// TestDocsVerify runs the verification of docs/ingest.md on a delivery, and on one that was
// changed.
func TestDocsVerify(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	getenv, _ := secretsOf(t)
	var header http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	senderFor(t, server.URL, getenv).send(t.Context(), told)
	headers, err := json.Marshal(map[string]string{
		"webhook-id": header.Get("webhook-id"), "webhook-timestamp": header.Get("webhook-timestamp"), "webhook-signature": header.Get("webhook-signature"),
	})
	if err != nil {
		t.Fatal(err)
	}
	program := docsBlock(t, "ingest.md", "import base64") +
		fmt.Sprintf("\nheaders, body = %s, %q.encode()\n", headers, body) +
		fmt.Sprintf("for secret in (%q, %q, %q):\n    print(verified(secret, headers, body), verified(secret, headers, "+
			"body + b' '))\n",
			getenv("NEW"), getenv("OLD"), "whsec_"+base64.StdEncoding.EncodeToString([]byte("another's secret")))
	said, err := exec.CommandContext(t.Context(), python, "-c", program).CombinedOutput()
	if want := "True False\nTrue False\nFalse False\n"; err != nil || string(said) != want {
		t.Errorf("it says %s (%v), want %s", said, err, want)
	}
	// What a stranger may send ends in no error, which the caller's server would answer with 500.
	program += fmt.Sprintf(`
secret, name, good = %q, "", dict(headers)
for name, values in {"id": ["", None, "é", "\udce9"], "timestamp": ["", None, "x", "-1", " 1", "１２３", "²", "9" * 5000],
                     "signature": ["", None, "v1,é", "v1,\udce9", "v1,", "v1", ",", "v1a,AAAA"]}.items():
    for value in values:
        print(verified(secret, {**good, "webhook-" + name: value}, body), end=" ")
    print(verified(secret, {each: good[each] for each in good if each != "webhook-" + name}, body), end=" ")
print(verified(secret, {}, body), verified(secret, {**good, "webhook-signature": "v1,AAAA " + good["webhook-signature"]}, body))
`, getenv("NEW"))
	said, err = exec.CommandContext(t.Context(), python, "-c", program).CombinedOutput()
	if want := "False False\n" + strings.Repeat("False ", 24) + "True\n"; err != nil ||
		!strings.HasSuffix(string(said), want) {
		t.Errorf("it says %s (%v), want %s at its end", said, err, want)
	}
}

// TestDocsFile reads the file that docs/operations.md shows.
func TestDocsFile(t *testing.T) {
	t.Parallel()
	file, err := Parse([]byte(docsBlock(t, "operations.md", "endpoints:")))
	if err != nil || len(file.Endpoints) != 1 || file.Endpoints[0].SigningKey.IsZero() {
		t.Errorf("%+v, %v", file, err)
	}
}

// TestAnswers tests that an answer other than 2xx is not an acceptance, that no redirect is
// followed, and that no answer is awaited longer than the timeout.
func TestAnswers(t *testing.T) {
	t.Parallel()
	getenv, _ := secretsOf(t)
	followed, switched := false, make(chan net.Conn, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/200", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 1<<20)) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/target", func(http.ResponseWriter, *http.Request) { followed = true })
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // or the server does not see that the caller leaves
		<-r.Context().Done()
	})
	mux.HandleFunc("/switch", func(w http.ResponseWriter, _ *http.Request) { // and then says nothing
		raw, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			switched <- raw
			io.WriteString(raw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]answer{
		"/200":    {taken: true, code: 200},
		"/moved":  {status: "HTTP_307", code: 307},
		"/gone":   {gone: true, status: "HTTP_410", code: 410},
		"/busy":   {status: "HTTP_503", code: 503, retryAfter: 2 * time.Minute},
		"/slow":   {status: StatusTimeout},
		"/cut":    {status: StatusNoAnswer},
		"/switch": {status: "HTTP_101", code: 101},
	} {
		said := make(chan answer, 1)
		go func() { said <- senderFor(t, server.URL+path, getenv).send(t.Context(), told) }()
		select {
		case got := <-said:
			if got != want {
				t.Errorf("%s: %+v, want %+v", path, got, want)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s holds the delivery up", path)
		}
	}
	(<-switched).Close()
	if followed {
		t.Error("a redirect was followed")
	}
	server.Close()
	if got := senderFor(t, server.URL, getenv).send(t.Context(), told); got.status != StatusConnect {
		t.Errorf("nothing listens: %+v", got)
	}
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	patient := senderFor(t, secure.URL+"/200", getenv)
	patient.endpoint.Timeout = payment.Duration(maxTimeout)
	if got := patient.send(t.Context(), told); got.status != StatusTLS {
		t.Errorf("a certificate of no authority: %+v", got)
	}
}

// TestAddresses tests that no connection leads into a private network without permission, whatever
// name resolves to it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"93.184.216.34:443": true, "[2606:2800:220:1::1]:443": true, "[64:ff9b::5db8:d822]:443": true,
		"127.0.0.1:443": false, "10.1.2.3:443": false, "172.16.0.1:443": false, "192.168.1.1:80": false, "169.254.169.254:80": false,
		"100.64.0.1:443": false, "0.0.0.0:443": false, "224.0.0.1:443": false, "255.255.255.255:443": false, "168.63.129.16:80": false, "192.0.0.192:80": false,
		"[::1]:443": false, "[::]:443": false, "[fe80::1%25eth0]:443": false, "[fe80::1]:443": false, "[fd00:ec2::254]:80": false, "[::ffff:10.0.0.1]:443": false,
		"[64:ff9b::a00:1]:443": false, "[2002:a00:1::1]:443": false, "[ff02::1]:443": false, "[2001:db8::1]:443": false, "[::10.0.0.1]:443": false, "192.88.99.1:443": false, "100.100.100.200:80": false, "example.com:443": false, "": false,
	} {
		if err := reachable(address, false); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "10.0.0.1:80": true, "[::1]:80": true, "169.254.169.254:80": false, "[fe80::1]:80": false,
		"0.0.0.0:80": false, "[fd00:ec2::254]:80": false, "168.63.129.16:80": false, "[2002:a9fe:a9fe::]:80": false,
		"[64:ff9b::a9fe:a9fe]:80": false,
	} {
		if err := reachable(address, true); (err == nil) != want {
			t.Errorf("%s where private ones are allowed: %v", address, err)
		}
	}
	getenv, _ := secretsOf(t)
	s := senderFor(t, "https://localhost:1/", getenv)
	s.endpoint.AllowPrivate = false
	strict := newSender(s.endpoint, s.signer, time.Now)
	defer strict.close()
	if got := strict.send(t.Context(), told); got.status != StatusForbidden {
		t.Errorf("localhost: %+v", got)
	}
}

// TestRetryAfterIsBounded tests that an endpoint can't ask for a delay without a bound.
func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "30": 30 * time.Second, "-5": 0, "99999999999": time.Hour, "999999999999999999999": 0, "soon": 0,
		"Thu, 26 Nov 2026 09:10:00 GMT": 10 * time.Minute, "Thu, 26 Nov 2026 08:00:00 GMT": 0, "Thu, 26 Nov 2037 08:00:00 GMT": time.Hour,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestFileFaults tests that each fault is named with its line, and that no address is quoted.
func TestFileFaults(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`
endpoints:
  - id: Shop
    url: http://user:hidden@shop.example/x
    secrets: []
    types: [payment.paid]
    timeout: 2m
    concurrency: 100
    from: LATER
  - id: shop
    url: https://shop.example/
    secrets: [env:A]
    participants: [p1]
    all_participants: true
  - id: shop
    url: https://shop.example/
    secrets: [env:A, env:B, env:C]
    participants: [""]
`))
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, want := range []string{
		"line 3: endpoints.0.id must be", "line 4: endpoints.0.url must be https",
		"line 4: endpoints.0.url must have no user",
		"line 5: endpoints.0.secrets are 0", "line 6: endpoints.0.types.0 is \"payment.paid\"",
		"line 7: endpoints.0.timeout is 2m0s", "line 8: endpoints.0.concurrency is 100",
		"line 9: endpoints.0.from is \"LATER\"", "endpoints.0.participants are missing",
		"line 13: endpoints.1.participants are given along",
		"line 15: endpoints.2.id \"shop\" is that of endpoints.1 too", "endpoints.2.secrets are 3",
		"endpoints.2.participants.0 must be",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hidden") {
		t.Errorf("it shows a secret: %v", err)
	}
	for text, want := range map[string]string{
		"endpoints: []": "names no endpoint",
		"hooks: []":     "hooks",
		"":              "one document",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSecretFaults tests that a missing, short or invalid secret is refused at the start, and not
// shown.
func TestSecretFaults(t *testing.T) {
	t.Parallel()
	file, err := Parse([]byte(strings.Replace(twoSecrets, "ADDRESS", "https://shop.example/", 1)))
	if err != nil {
		t.Fatal(err)
	}
	good, _ := secretsOf(t)
	for name, value := range map[string]string{"NEW": "", "OLD": "whsec_c2hvcnQ=", "KEY": "whsk_!hidden!"} {
		_, err := newSigner(file.Endpoints[0], func(of string) string {
			if of == name {
				return value
			}
			return good(of)
		})
		if err == nil || !strings.Contains(err.Error(), "env:"+name) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s as %q: %v", name, value, err)
		}
	}
	_, err = newSigner(file.Endpoints[0], func(of string) string {
		if of == "KEY" {
			return base64.StdEncoding.EncodeToString(make([]byte, 64)) // its two halves do not go together
		}
		return good(of)
	})
	if err == nil {
		t.Error("a key that is none was taken")
	}
}

// TestOfAnEndpoint sends one event that is not about a payment.
func TestOfAnEndpoint(t *testing.T) {
	t.Parallel()
	getenv, _ := secretsOf(t)
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	file, err := Parse([]byte(strings.Replace(twoSecrets, "ADDRESS", server.URL, 1)))
	if err != nil {
		t.Fatal(err)
	}
	said, err := Test(context.Background(), file, "shop", getenv)
	if err != nil || said.HTTPStatus != 200 || !strings.HasPrefix(said.ID, "evt_test_") {
		t.Errorf("%+v, %v", said, err)
	}
	status = http.StatusForbidden
	if _, err := Test(context.Background(), file, "shop", getenv); err == nil ||
		!strings.Contains(err.Error(), "HTTP_403") {
		t.Errorf("refused: %v", err)
	}
	if _, err := Test(context.Background(), file, "other", getenv); err == nil {
		t.Error("no such endpoint")
	}
}
