package simrail

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/railsim"
)

// Options says how banks are started.
type Options struct {
	Dir   string // of their ledger files
	Speed Speed
	Seed  uint64
	// CallbackURL is where /callbacks/{rail_type} is served; needed by rails that call back.
	CallbackURL string
	// CallBack makes every provisional bank call back, those that can be asked too.
	CallBack bool
}

// Bank is a simulated bank that serves, with the rail that leads to it.
type Bank struct {
	*railsim.Bank
	Shape   Shape
	Profile rails.Profile
	URL     string
	Ledger  string // its file
	calls   bool
	served  chan error
}

// Start starts the bank of a shape: it de-duplicates only where the shape says so,
// and takes a refused key again where, and only where, the shape says so.
func Start(shape Shape, o Options) (*Bank, error) {
	profile := shape.Profile(o.Speed)
	if err := profile.Validate(); err != nil {
		return nil, err
	}
	b := &Bank{
		Shape: shape, Profile: profile, Ledger: filepath.Join(o.Dir, shape.RailType()+".jsonl"),
		calls: shape.CallsBack() || o.CallBack && shape.Provisional(), served: make(chan error, 1),
	}
	config := railsim.Config{
		LedgerPath: b.Ledger, Behaviour: railsim.Behaviour{NoDedupe: !shape.Dedupes(), ForgetRefusals: shape.TakesAgain()}, Mode: railsim.Sync,
		Seed: o.Seed, Draw: railsim.DrawByArrival, MaxPending: 100_000,
	}
	if shape.Provisional() {
		config.Mode, config.SettleDelay = railsim.Provisional, o.Speed.Settle
	}
	if b.calls {
		config.Callback = railsim.Callback{URL: o.CallbackURL + "/callbacks/" + shape.RailType(), Secret: CallbackSecret}
	}
	var err error
	if b.Bank, err = railsim.New(config); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening for bank %s: %w", shape.RailType(), err), b.Bank.Close())
	}
	b.URL = "http://" + listener.Addr().String()
	go func() { b.served <- b.Serve(listener) }()
	return b, nil
}

// Close ends the bank.
func (b *Bank) Close() error {
	err := b.Bank.Close()
	return errors.Join(err, <-b.served)
}

// CallbackSecret signs the callbacks of these banks. It guards nothing.
var CallbackSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("the simulated banks sign by this"))

// Rails is the configuration that leads to the banks. The reference that a bank
// gets is the instruction's own id and not the key, so that its ledger shows who
// was paid twice whatever keys were used.
func Rails(banks ...*Bank) (railconfig.File, error) {
	var text bytes.Buffer
	text.WriteString("rails:\n")
	for _, b := range banks {
		profile, err := b.Profile.JSON()
		if err != nil {
			return railconfig.File{}, err
		}
		fmt.Fprintf(&text, railText, b.Profile.RailType, profile, b.URL)
		if b.Shape.Asked() {
			text.WriteString(inquiryText)
		}
		if b.calls {
			text.WriteString(callbackText)
		}
	}
	return railconfig.Parse(text.Bytes(), getenv)
}

// Callbacks are the readers of the banks' callbacks.
func Callbacks(file railconfig.File) (map[string]*callback.Reader, error) {
	return file.Callbacks(getenv)
}

func getenv(name string) string { return map[string]string{"SIMRAIL_SECRET": CallbackSecret}[name] }

const railText = `
  - rail_type: %s
    adapter: http
    profile: %s
    http:
      base_url: %s
      allow_plaintext: true
      allow_loopback: true
      send:
        path: /payments
        idempotency_header: Idempotency-Key
        body:
          reference: instruction_id
          amount: amount.decimal
          currency: currency
          debtor: payload.debtor
          creditor: payload.creditor
        response:
          status: status
          statuses: {EXECUTED: OK, ACCEPTED: P, REFUSED: CODE}
          reference: id
          code: code
          message: message
          echo: reference
          echo_is: instruction_id
`

const inquiryText = `
      inquiry:
        path: /payments/by-key/{rail_key}
        response:
          status: status
          statuses: {EXECUTED: EXECUTED, REFUSED: CODE, IN_PROGRESS: IN_PROGRESS, NOT_FOUND: NOT_FOUND}
          reference: id
          code: code
          echo: key
          echo_is: rail_key
`

const callbackText = `
    callback:
      secrets: ["env:SIMRAIL_SECRET"]
      key: key
      status: status
      statuses: {EXECUTED: EXECUTED, REFUSED: REFUSED}
      reference: id
      code: code
`
