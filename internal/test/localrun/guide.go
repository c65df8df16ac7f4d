package localrun

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// offer is a login that a run prints, with the variable in which the binary takes
// it, and what it is for.
type offer struct{ name, login, variable, purpose string }

// administrator is the superuser of a private server.
var administrator = offer{"admin", pgserver.Superuser, "RAILHEAD_ADMIN_URL", "Migrates, and makes roles and logins."}

// offers lists the logins of a run, each a member of one role.
var offers = []offer{
	{"ingest", "railhead_ingest_login", "RAILHEAD_INGEST_URL", "Enqueues payments and asks for their state."},
	{"reader", "railhead_readonly_login", "RAILHEAD_READER_URL", "Reads everything but payloads: payment show, status."},
	{"operator", "railhead_operator_login", "RAILHEAD_OPERATOR_URL", "Acts on payments, dead letters and rails."},
	{"operator 2", "railhead_operator2_login", "RAILHEAD_OPERATOR_URL", "Acts too: the log of acts names the login."},
	{"auditor", "railhead_auditor_login", "RAILHEAD_AUDITOR_URL", "Proves the promises: railhead prove."},
	{"metrics", "railhead_metrics_login", "RAILHEAD_METRICS_URL", "Reads the gauges of /metrics."},
	{"callbacks", "railhead_callback_login", "RAILHEAD_CALLBACKS_URL", "Records what a rail reports later."},
	{"api", "railhead_api_login", "RAILHEAD_API_URL", "Enqueues over HTTP, by tokens."},
	{"events", "railhead_events_login", "RAILHEAD_EVENTS_URL", "Delivers events to endpoints of callers."},
	{"relayer", "railhead_relayer_login", "RAILHEAD_RELAYER_URL", "Claims and sends payments."},
	{"reaper", "railhead_reaper_login", "RAILHEAD_REAPER_URL", "Repairs what a dead relayer left."},
	{"control", "railhead_control_login", "RAILHEAD_AUDITOR_URL", "Runs the proofs of the sequences."},
	{"contract", "railhead_contract_login", "psql", "Reads the view outbox_contract, and nothing else."},
}

// explain prints how to continue by hand: lines to copy, each below a comment that says what it is
// for.
func (i *installation) explain(ctx context.Context) error {
	token, err := i.token(ctx)
	if err != nil {
		return err
	}
	out := &strings.Builder{}
	fmt.Fprintf(out, "\n# Logins, for psql or for the variable that is named.\n")
	shown := offers
	if i.server != nil { // else the administrator's is the caller's own
		shown = slices.Insert(slices.Clone(offers), 0, administrator)
	}
	for _, offer := range shown {
		fmt.Fprintf(out, "# %-10s  %-22s  %s\n'%s'\n", offer.name, offer.variable, offer.purpose, i.printedURL(offer.login))
	}
	out.WriteString(i.payee.guide())
	fmt.Fprintf(out, `
# Enqueue a payment, and see its attempts.
psql '%s' -c "
  SELECT * FROM %s.enqueue_payment_outbox('my-1', 'participant-01', 'my-1-key', '%s',
    '{\"amount\": \"10.50\", \"currency\": \"EUR\",
      \"debtor\": {\"account\": \"me\"}, \"creditor\": {\"account\": \"you\"}}')"
RAILHEAD_READER_URL='%s' \
  %s payment show my-1

`, i.printedURL("railhead_ingest_login"), i.Cell, i.payee.railType(), i.printedURL("railhead_readonly_login"), nearPath(i.Railhead))
	fmt.Fprintf(out, `# The same over HTTP, with the outcome. The token is for participant-01 and p1, for a day.
RAILHEAD_API=http://%s
RAILHEAD_TOKEN=%s
curl -sS "$RAILHEAD_API/v1/instructions" -H "Authorization: Bearer $RAILHEAD_TOKEN" \
  -H 'Content-Type: application/json' -H 'Idempotency-Key: my-2-key' -H 'Prefer: wait=20' \
  -d '{"instruction_id": "my-2", "participant_id": "participant-01", "rail_type": "%s",
       "payload": {"amount": "10.50", "currency": "EUR",
         "debtor": {"account": "me"}, "creditor": {"account": "you"}}}'

`, i.apiAddr, token, i.payee.railType())
	fmt.Fprintf(out, "# The console, in a browser. The link logs in once, and may act.\n# %s\n\n", i.consoleLink)
	fmt.Fprint(i.Out, out.String())
	i.say("it stays up; Ctrl-C stops it")
	return nil
}

// printedURL returns loginURL without the parts that the socket of a private server makes
// superfluous, so that it fits on a line.
func (i *installation) printedURL(login string) string {
	full := i.loginURL(login)
	parsed, err := url.Parse(full)
	if i.server == nil || err != nil {
		return full
	}
	query := parsed.Query()
	parsed.RawQuery = "host=" + query.Get("host") + "&port=" + query.Get("port")
	return parsed.String()
}

// nearPath returns the shorter form of a path: relative to the working directory if the path is
// below it.
func nearPath(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if near, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(near) {
		return near
	}
	return path
}
