package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/railhead-pay/railhead/railsim"
)

// options are the flags that are not a plain field of railsim.Config.
type options struct {
	cfg railsim.Config

	listen, addrFile            string
	accounts, faults            string
	dedupe, storeRefusals       bool
	callbackSecret              string
	tlsCert, tlsKey, clientCA   string
	signatureSecret, bearerFile string
	summary                     bool
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("railsim", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.addrFile, "addr-file", "", "`file` to which the bound address is written, whole, once the bank "+
		"listens")
	fs.StringVar(&o.cfg.LedgerPath, "ledger", "", "ledger `file`, created or continued (required)")
	fs.StringVar(&o.cfg.RequestsPath, "requests", "", "`file` to which a line per request is appended")
	fs.StringVar(&o.accounts, "accounts", "", "JSON `file` of accounts to open")
	fs.StringVar(&o.faults, "faults", "", "JSON `file` of fault rules to start with")
	fs.Uint64Var(&o.cfg.Seed, "seed", 0, "seed of the fault draws")
	fs.StringVar((*string)(&o.cfg.Draw), "draw", string(railsim.DrawByKey), "what faults are drawn by: key or arrival")
	fs.DurationVar(&o.cfg.KeyWindow, "key-window", 24*time.Hour, "how long an idempotency key is remembered")
	fs.BoolVar(&o.dedupe, "dedupe", true, "remember idempotency keys; false executes every POST")
	fs.BoolVar(&o.storeRefusals, "store-refusals", true, "store refusals under the key; false judges a re-send afresh")
	fs.BoolVar(&o.cfg.Behaviour.ChangedAmountIsNew, "changed-amount-is-new", false,
		"same key with another amount or account is a new payment")
	fs.StringVar((*string)(&o.cfg.Behaviour.OnReplay), "on-replay", string(railsim.ReplayStored),
		"answer to a replay: stored, duplicate (409), duplicate-422, duplicate-200 or bad-request (400)")
	fs.StringVar((*string)(&o.cfg.Mode), "mode", string(railsim.Sync), "sync or provisional")
	fs.DurationVar(&o.cfg.SettleDelay, "settle-delay", 0, "provisional mode: time from ACCEPTED to the final word")
	fs.StringVar(&o.cfg.Callback.URL, "callback-url", "", "provisional mode: `URL` that gets final words")
	fs.StringVar(&o.callbackSecret, "callback-secret-file", "", "`file` with the whsec_ secret that signs callbacks")
	fs.IntVar(&o.cfg.Callback.Attempts, "callback-attempts", 8, "sends of one callback until it is answered 2xx")
	fs.DurationVar(&o.cfg.Callback.Backoff, "callback-backoff", 200*time.Millisecond,
		"wait after the first attempt; it doubles")
	fs.StringVar(&o.tlsCert, "tls-cert", "", "PEM `file`; with -tls-key, speak TLS")
	fs.StringVar(&o.tlsKey, "tls-key", "", "PEM `file`")
	fs.StringVar(&o.clientCA, "client-ca", "", "PEM `file`; require client certificates signed by these")
	fs.StringVar(&o.signatureSecret, "hmac-secret-file", "", "`file` with the secret of X-Signature; require it under "+
		"/payments")
	fs.StringVar(&o.bearerFile, "bearer-token-file", "", "`file` with a token; require it under /payments")
	fs.Int64Var(&o.cfg.MaxBodyBytes, "max-body-bytes", 64<<10, "longest request body")
	fs.IntVar(&o.cfg.MaxConns, "max-conns", 1024, "open connections")
	fs.IntVar(&o.cfg.MaxPayments, "max-payments", 2_000_000, "payments in memory")
	fs.IntVar(&o.cfg.MaxPending, "max-pending", 10_000, "payments between ACCEPTED and settled")
	fs.IntVar(&o.cfg.MaxRequests, "max-requests", 100_000, "requests in memory; counts go on")
	fs.DurationVar(&o.cfg.MaxHang, "max-hang", 10*time.Minute, "longest hang or delay")
	fs.BoolVar(&o.summary, "summary", false, "print the summary of the ledger file and end; the bank is not opened")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return o, nil
}

// config reads the files that the flags name, and returns every error at once.
func (o *options) config() (railsim.Config, error) {
	cfg := o.cfg
	cfg.Behaviour.NoDedupe = !o.dedupe
	cfg.Behaviour.ForgetRefusals = !o.storeRefusals
	var errs []error
	read := func(path string, use func([]byte) error) {
		if path == "" {
			return
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = use(data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	read(o.accounts, func(data []byte) (err error) {
		cfg.Accounts, err = railsim.ParseAccounts(data)
		return err
	})
	read(o.faults, func(data []byte) (err error) {
		cfg.Faults, err = railsim.ParseFaults(data)
		return err
	})
	read(o.callbackSecret, func(data []byte) error {
		cfg.Callback.Secret = string(bytes.TrimSpace(data))
		return nil
	})
	read(o.signatureSecret, func(data []byte) (err error) {
		cfg.SignatureSecret, err = secret(data)
		return err
	})
	read(o.bearerFile, func(data []byte) error {
		token, err := secret(data)
		cfg.BearerToken = string(token)
		return err
	})
	var err error
	cfg.TLS, err = o.tls()
	return cfg, errors.Join(append(errs, err)...)
}

// secret refuses an empty file: an empty secret would switch the check off.
func secret(data []byte) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, errors.New("the file is empty")
	}
	return data, nil
}

func (o *options) tls() (*tls.Config, error) {
	if o.tlsCert == "" && o.tlsKey == "" {
		if o.clientCA != "" {
			return nil, errors.New("-client-ca needs -tls-cert and -tls-key")
		}
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if o.clientCA == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(o.clientCA)
	if err != nil {
		return nil, fmt.Errorf("client CA: %w", err)
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client CA: %s holds no certificate", o.clientCA)
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	return cfg, nil
}

// summarise prints what a ledger amounts to, as indented JSON.
func summarise(path string, out io.Writer) error {
	records, err := railsim.ReadLedger(path)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(railsim.Summarise(records))
}
