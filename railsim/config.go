package railsim

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Mode determines when the bank's final result comes.
type Mode string

const (
	// Sync executes before it answers: 201 is final.
	Sync Mode = "sync"
	// Provisional answers 202 ACCEPTED, settles after Config.SettleDelay and sends a callback.
	Provisional Mode = "provisional"
)

// Replay is the answer to a second POST of one key and one body, inside the key window.
type Replay string

const (
	// ReplayStored repeats the first answer, with the header Idempotent-Replayed: true.
	ReplayStored Replay = "stored"
	// ReplayDuplicate answers 409 with code DUPL, whatever the first answer was.
	ReplayDuplicate Replay = "duplicate"
	// ReplayDuplicate422 answers 422 REFUSED with code DUPL, whatever the first answer was: in the words of a refusal.
	ReplayDuplicate422 Replay = "duplicate-422"
	// ReplayDuplicate200 answers 200 REFUSED with code DUPL, whatever the first answer was: the body alone refuses.
	ReplayDuplicate200 Replay = "duplicate-200"
	// ReplayBadRequest answers 400 with code ALREADY_EXISTS, whatever the first answer was.
	ReplayBadRequest Replay = "bad-request"
)

// Replays lists every answer to a replay.
func Replays() []Replay {
	return []Replay{ReplayStored, ReplayDuplicate, ReplayDuplicate422, ReplayDuplicate200, ReplayBadRequest}
}

func (r Replay) validate() error {
	if slices.Contains(Replays(), r) {
		return nil
	}
	return fmt.Errorf("replay %q is not one of %q", r, Replays())
}

// Draw determines what a fault rule's probability is drawn by, in addition to the seed and the
// rule's place in the list.
type Draw string

const (
	// DrawByKey draws by the key and by which send of it this is, so a run with the same keys repeats exactly,
	// however its requests interleave.
	DrawByKey Draw = "key"
	// DrawByArrival draws by the running number of the request, so a run with fresh keys repeats as far as its order does.
	DrawByArrival Draw = "arrival"
)

// Behaviour configures how the bank treats a repeated key. The zero value is the safest bank.
type Behaviour struct {
	// NoDedupe keeps no memory of keys: every POST that arrives executes.
	NoDedupe bool
	// ForgetRefusals does not store refusals under the key, so a re-send is judged afresh.
	ForgetRefusals bool
	// ChangedAmountIsNew counts a key together with amount, currency and accounts: the same key with another amount
	// is another payment, not a conflict.
	ChangedAmountIsNew bool
	// OnReplay is the answer to a replay. Empty means ReplayStored.
	OnReplay Replay
}

// Callback configures the callbacks of provisional mode.
type Callback struct {
	// URL gets a POST for each settled payment. Empty: no callbacks.
	URL string
	// Secret signs them: "whsec_" and the base64 of 16 to 64 random bytes. Required with URL.
	Secret string
	// Attempts bounds the sends of one event until one is answered 2xx. 0 means 8; at most 100.
	Attempts int
	// Backoff is the wait after the first attempt; it doubles up to 100 times itself. 0 means 200 ms.
	Backoff time.Duration
	// Timeout bounds one attempt. 0 means 5 s.
	Timeout time.Duration
}

// Config configures a bank. Only LedgerPath is required.
type Config struct {
	// LedgerPath is the ledger file. It is created when absent, and replayed when present.
	LedgerPath string
	// RequestsPath, if set, is a file to which one line per request is appended. Lines are written through to the
	// operating system, so they outlive a kill of the bank, but they are not synced.
	RequestsPath string
	// Accounts opens accounts with balances and states. The zero value opens every account on demand
	// at zero, without limit.
	Accounts AccountsFile
	// KeyWindow is how long a key is remembered from the record that answered it. 0 means 24 h.
	KeyWindow time.Duration
	// Behaviour configures how the bank treats a repeated key.
	Behaviour Behaviour
	// Mode is Sync when empty.
	Mode Mode
	// SettleDelay is the time from ACCEPTED to the final result in provisional mode. 0 settles at
	// once.
	SettleDelay time.Duration
	// Callback is used in provisional mode only.
	Callback Callback
	// Faults are the rules in force from the start, at most 256.
	Faults []Fault
	// Seed is where the draws of fault rules start from.
	Seed uint64
	// Draw is DrawByKey when empty.
	Draw Draw
	// TLS, if set, makes Serve use TLS. Its ClientAuth and ClientCAs decide about client
	// certificates.
	TLS *tls.Config
	// SignatureSecret, if set, requires X-Timestamp and X-Signature on everything under /payments.
	SignatureSecret []byte
	// BearerToken, if set, requires "Authorization: Bearer <token>" on everything under /payments.
	BearerToken string
	// MaxBodyBytes bounds a request body. 0 means 64 KiB; at most 1 MiB.
	MaxBodyBytes int64
	// MaxConns bounds open connections, held ones included; more wait to be accepted. 0 means 1,024.
	MaxConns int
	// MaxPayments bounds the payments in memory, those replayed included; further ones get 503. 0 means 2,000,000.
	MaxPayments int
	// MaxPending bounds payments between ACCEPTED and settled; further ones get 503. 0 means 10,000.
	MaxPending int
	// MaxRequests bounds the requests kept in memory, the newest stay; counts go on. 0 means 100,000.
	MaxRequests int
	// MaxHang ends every hang and bounds every delay. 0 means 10 min.
	MaxHang time.Duration
	// Now is the bank's clock: record times, key window, inquiry lag, signature age. Nil means time.Now.
	Now func() time.Time
	// Log receives the few messages of the bank. Nil discards them.
	Log *slog.Logger
}

// Bounds that no setting changes.
const (
	maxKey           = 255      // characters of an Idempotency-Key
	maxReference     = 255      // bytes of a reference
	maxAccountNumber = 64       // bytes of an account number
	maxAccounts      = 1000_000 // accounts, those opened on demand included
	maxHeaderBytes   = 16 << 10 // bytes of a request head
	maxAdminBytes    = 1 << 20  // bytes of a fault table
	maxBodyBytes     = 1 << 20  // bytes that MaxBodyBytes can allow

	readTimeout        = 30 * time.Second // for one whole request
	idleTimeout        = 2 * time.Minute  // between two requests of a connection
	signatureTolerance = 5 * time.Minute  // between X-Timestamp and the bank's clock
)

// withDefaults returns the configuration with the defaults for zero values.
func (c Config) withDefaults() Config {
	set(&c.KeyWindow, 24*time.Hour)
	set(&c.Behaviour.OnReplay, ReplayStored)
	set(&c.Mode, Sync)
	set(&c.Callback.Attempts, 8)
	set(&c.Callback.Backoff, 200*time.Millisecond)
	set(&c.Callback.Timeout, 5*time.Second)
	set(&c.Draw, DrawByKey)
	set(&c.MaxBodyBytes, 64<<10)
	set(&c.MaxConns, 1024)
	set(&c.MaxPayments, 2_000_000)
	set(&c.MaxPending, 10_000)
	set(&c.MaxRequests, 100_000)
	set(&c.MaxHang, 10*time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate returns all errors at once. It expects a configuration that withDefaults has returned.
func (c Config) validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.LedgerPath == "", "ledger path is empty")
	refuse(c.KeyWindow < 0, "key window %v is negative", c.KeyWindow)
	refuse(c.Mode != Sync && c.Mode != Provisional, "mode %q is not sync or provisional", c.Mode)
	refuse(c.Draw != DrawByKey && c.Draw != DrawByArrival, "draw %q is not key or arrival", c.Draw)
	refuse(c.SettleDelay < 0 || c.SettleDelay > c.MaxHang, "settle delay %v is not within 0 and %v", c.SettleDelay,
		c.MaxHang)
	refuse(c.MaxBodyBytes < 1 || c.MaxBodyBytes > maxBodyBytes, "body limit %d is not within 1 and %d", c.MaxBodyBytes,
		maxBodyBytes)
	refuse(c.MaxConns < 1, "connection limit %d is below 1", c.MaxConns)
	refuse(c.MaxPayments < 1, "payment limit %d is below 1", c.MaxPayments)
	refuse(c.MaxPending < 1, "pending limit %d is below 1", c.MaxPending)
	refuse(c.MaxRequests < 1, "request limit %d is below 1", c.MaxRequests)
	refuse(c.MaxHang < 0, "hang limit %v is negative", c.MaxHang)
	return errors.Join(append(errs, c.Behaviour.OnReplay.validate(), c.Callback.validate(),
		validateFaults(c.Faults, c.MaxHang))...)
}

func (c Callback) validate() error {
	if c.URL == "" {
		return nil
	}
	var errs []error
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, fmt.Errorf("callback URL %q is not an absolute http or https URL", c.URL))
	}
	if _, err := parseWebhookSecret(c.Secret); err != nil {
		errs = append(errs, err)
	}
	if c.Attempts < 1 || c.Attempts > 100 {
		errs = append(errs, fmt.Errorf("callback attempts %d is not within 1 and 100", c.Attempts))
	}
	if c.Backoff < 0 || c.Timeout < 0 {
		errs = append(errs, errors.New("callback back-off or timeout is negative"))
	}
	return errors.Join(errs...)
}

// parseWebhookSecret reads "whsec_<base64>". The error never repeats the secret.
func parseWebhookSecret(s string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(s, "whsec_")
	if !ok {
		return nil, errors.New("callback secret lacks its prefix whsec_")
	}
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(secret) < 16 || len(secret) > 64 {
		return nil, errors.New("callback secret is not the base64 of 16 to 64 bytes")
	}
	return secret, nil
}
