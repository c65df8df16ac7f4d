package simrail

import (
	"encoding/base64"
	"fmt"
	"path/filepath"

	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/railsim"
)

// Options configures the start of banks.
type Options struct {
	Dir   string // of their ledger files
	Speed Speed
	Seed  uint64
	// CallbackURL is the URL under which /callbacks/{rail_type} is served; rails that call back need
	// it.
	CallbackURL string
	// CallBack makes every provisional bank call back, those that can be asked too.
	CallBack bool
}

// Bank is a running simulated bank, with the rail that leads to it.
type Bank struct {
	*Served
	Shape   Shape
	Profile rails.Profile
	Ledger  string // its file
	calls   bool
}

// Start starts the bank of a shape. The bank de-duplicates only where the shape says so, and takes
// a refused key again exactly where the shape says so.
func Start(shape Shape, o Options) (*Bank, error) {
	profile := shape.Profile(o.Speed)
	if err := profile.Validate(); err != nil {
		return nil, err
	}
	b := &Bank{
		Shape: shape, Profile: profile, Ledger: filepath.Join(o.Dir, shape.RailType()+".jsonl"),
		calls: shape.CallsBack() || o.CallBack && shape.Provisional(),
	}
	config := railsim.Config{
		LedgerPath: b.Ledger, Behaviour: railsim.Behaviour{NoDedupe: !shape.Dedupes(), ForgetRefusals: shape.TakesAgain()},
		Mode: railsim.Sync,
		Seed: o.Seed, Draw: railsim.DrawByArrival, MaxPending: 100_000,
	}
	if shape.Provisional() {
		config.Mode, config.SettleDelay = railsim.Provisional, o.Speed.Settle
	}
	if b.calls {
		config.Callback = railsim.Callback{URL: o.CallbackURL + "/callbacks/" + shape.RailType(), Secret: CallbackSecret}
	}
	var err error
	if b.Served, err = Serve(config); err != nil {
		return nil, fmt.Errorf("bank %s: %w", shape.RailType(), err)
	}
	return b, nil
}

// SecretVariable is the environment variable that has CallbackSecret, for processes.
const SecretVariable = "SIMRAIL_SECRET"

// CallbackSecret signs the callbacks of these banks. It protects nothing.
var CallbackSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("the simulated banks sign by this"))

// Text returns the rails file that leads to the banks. A bank gets the instruction's own id as the
// reference, and not the key, so that its ledger shows a payment that was executed twice whatever
// keys were used. Callbacks are signed by [CallbackSecret].
func Text(banks ...*Bank) ([]byte, error) {
	var all []railsfile.Rail
	for _, b := range banks {
		profile, err := b.Profile.JSON()
		if err != nil {
			return nil, err
		}
		rail := railsfile.Rail{Name: b.Profile.RailType, URL: b.URL, Profile: string(profile),
			Reference: railsfile.Instruction, Refused: "CODE"}
		if b.Shape.Asked() {
			rail.Inquiry = railsfile.ByKey
		}
		if b.calls {
			rail.Secret = "env:" + SecretVariable
		}
		all = append(all, rail)
	}
	return railsfile.Text(all...)
}

// Rails returns the configuration of [Text].
func Rails(banks ...*Bank) (railconfig.File, error) {
	text, err := Text(banks...)
	if err != nil {
		return railconfig.File{}, err
	}
	return railconfig.Parse(text, getenv)
}

// Callbacks returns the readers of the banks' callbacks.
func Callbacks(file railconfig.File) (map[string]*callback.Reader, error) {
	return file.Callbacks(getenv)
}

func getenv(name string) string { return map[string]string{SecretVariable: CallbackSecret}[name] }
