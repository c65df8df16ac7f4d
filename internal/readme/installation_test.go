package readme

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/localrun"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// installation is what make run starts, with a shell in which railhead and the
// clients of PostgreSQL are on the PATH.
type installation struct {
	t      *testing.T
	dir    string
	path   string            // of the shell
	logins map[string]string // connection strings, by the name that make run prints
	bank   string            // host and port
	env    []string          // a variable for each login
}

// variables are what the binary takes the logins of an installation in.
var variables = map[string]string{
	"admin": "RAILHEAD_ADMIN_URL", "ingest": "RAILHEAD_INGEST_URL", "operator": "RAILHEAD_OPERATOR_URL", "reader": "RAILHEAD_READER_URL",
	"auditor": "RAILHEAD_AUDITOR_URL", "relayer": "RAILHEAD_RELAYER_URL", "reaper": "RAILHEAD_REAPER_URL",
}

// startInstallation builds the programs and runs them until the end of the test. It
// leaves them in bin below its folder.
func startInstallation(t *testing.T) *installation {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rh-*") // every account may enter it, that of the server too
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, "../../cmd/railhead",
		"../../cmd/railsim")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := localrun.Run(ctx, localrun.Options{
			Dir: filepath.Join(dir, "run"), Evidence: filepath.Join(dir, "evidence"), Cell: "railhead",
			Railhead: filepath.Join(bin, "railhead"), Rail: localrun.Bank, Payee: filepath.Join(bin, "railsim"),
			Instructions: 20, Participants: 5,
			Out: in,
		})
		in.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	i := &installation{t: t, dir: dir, logins: map[string]string{}, path: bin + ":" + os.Getenv("PATH")}
	if found, err := pgserver.Find(t.Context(), 0); err == nil {
		i.path += ":" + found.Dir
	}
	i.read(out)
	go io.Copy(io.Discard, out)
	for name, variable := range variables {
		if i.logins[name] == "" {
			t.Fatalf("make run has printed no login for %s", name)
		}
		i.env = append(i.env, variable+"="+i.logins[name])
	}
	return i
}

var switched = regexp.MustCompile(`^curl -X PUT ([^/]+)/`)

// read takes the logins and the bank from what is printed until all is up.
func (i *installation) read(out io.Reader) {
	i.t.Helper()
	var all, last string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		all += line + "\n"
		name, _, _ := strings.Cut(strings.TrimPrefix(last, "# "), "  ")
		if strings.HasPrefix(line, "'postgres://") {
			i.logins[name] = strings.Trim(line, "'")
		}
		if strings.HasPrefix(line, "RAILHEAD_API=") || strings.HasPrefix(line, "RAILHEAD_TOKEN=") {
			i.env = append(i.env, line)
		}
		if found := switched.FindStringSubmatch(line); found != nil {
			i.bank = found[1]
		}
		if strings.Contains(line, "it stays up") {
			return
		}
		last = line
	}
	i.t.Fatalf("the installation did not come up:\n%s", all)
}

// as is a connection string with another login.
func (i *installation) as(login string) string {
	i.t.Helper()
	parsed, err := url.Parse(i.logins["admin"])
	if err != nil {
		i.t.Fatal(err)
	}
	parsed.User = url.User(login)
	return parsed.String()
}

// inDatabase is the environment of another database.
func (i *installation) inDatabase(name string) []string {
	var env []string
	for _, each := range i.env {
		variable, text, _ := strings.Cut(each, "=")
		if variable == "RAILHEAD_API" || variable == "RAILHEAD_TOKEN" {
			continue // of the database that make run has
		}
		parsed, err := url.Parse(text)
		if err != nil {
			i.t.Fatal(err)
		}
		parsed.Path = "/" + name
		env = append(env, variable+"="+parsed.String())
	}
	return env
}

// command is a program in the shell's environment; dir is where it runs.
func (i *installation) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + i.path, "HOME=" + dir, "PSQLRC=/dev/null"}, i.env...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run types one line for the test itself.
func (i *installation) run(line string) string {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), time.Minute)
	defer cancel()
	output, err := i.command(ctx, i.dir, "bash", "-euo", "pipefail", "-c", line).CombinedOutput()
	if err != nil {
		i.t.Fatalf("%s: %v\n%s", line, err, output)
	}
	return string(output)
}

// faults are what the bank does from now on, as rules of railsim.
func (i *installation) faults(rules ...string) {
	i.t.Helper()
	request, err := http.NewRequestWithContext(i.t.Context(), http.MethodPut, "http://"+i.bank+"/admin/faults",
		strings.NewReader(`{"rules":[`+strings.Join(rules, ",")+`]}`))
	if err != nil {
		i.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		i.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		i.t.Fatalf("the bank's faults: %s %s", answer.Status, text)
	}
}

// await waits until a query as an administrator says true.
func (i *installation) await(what, sql string, args ...any) {
	i.t.Helper()
	conn, err := pgx.Connect(i.t.Context(), i.logins["admin"])
	if err != nil {
		i.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(i.t.Context()))
	if err := await.Until(i.t.Context(), 2*time.Minute, what, func() (there bool, err error) {
		err = conn.QueryRow(i.t.Context(), sql, args...).Scan(&there)
		return there, err
	}); err != nil {
		i.t.Fatal(err)
	}
}

// payments are instructions by the state that an example needs; each is used once.
//
//	waiting    due in an hour
//	executed   its outcome is unknown, and the bank has executed it
//	unsent     its outcome is unknown, and the bank has never seen it
//	expired    it expired before it was sent
//	refused    the bank refused it (AC01)
//	closed     the bank refused it, because the account is closed (AC04)
type payments map[string][]string

// take returns one of them.
func (p payments) take(t *testing.T, state string) string {
	t.Helper()
	if len(p[state]) == 0 {
		t.Fatalf("no payment is left that is %s", state)
	}
	id := p[state][0]
	p[state] = p[state][1:]
	return id
}

// scene brings so many payments to each state, all at once: the bank loses answers and
// requests and says that it knows of no such payment, until they have expired.
func (i *installation) scene(states map[string]int) payments {
	i.t.Helper()
	i.faults(
		`{"kind":"drop_after","match":{"creditor":"executed"}}`, `{"kind":"inquiry_not_found","match":{"creditor":"executed"}}`,
		`{"kind":"drop_before","match":{"creditor":"unsent"}}`,
		`{"kind":"refuse","code":"AC01","match":{"creditor":"refused"}}`, `{"kind":"refuse","code":"AC04","match":{"creditor":"closed"}}`)
	moment := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(time.RFC3339Nano) }
	all := payments{}
	var lines strings.Builder
	for state, count := range states {
		more := ""
		switch state {
		case "waiting":
			more = `"not_before":"` + moment(time.Hour) + `",`
		case "executed", "unsent":
			more = `"expires_at":"` + moment(8*time.Second) + `",`
		case "expired":
			more = `"not_before":"` + moment(2*time.Second) + `","expires_at":"` + moment(2001*time.Millisecond) + `",`
		}
		for n := range count {
			id := fmt.Sprintf("scene-%s-%d", state, n)
			all[state] = append(all[state], id)
			fmt.Fprintf(&lines, `{"instruction_id":%q,"participant_id":"scene","idempotency_key":%q,"rail_type":"bank",%s`+
				`"payload":{"amount":"10.50","currency":"EUR","debtor":{"account":"me"},"creditor":{"account":%q}}}`+"\n", id, id, more, state)
		}
	}
	i.write(i.dir, "scene.jsonl", lines.String())
	i.run("railhead enqueue --file scene.jsonl")
	i.await("the scene", `SELECT count(*) FILTER (WHERE reason = 'OUTCOME_UNKNOWN') = $1
		AND count(*) FILTER (WHERE reason = 'FAILED') = $2
		AND count(*) FILTER (WHERE reason = 'EXPIRED') = $3 FROM railhead.payment_dead_letters`,
		states["executed"]+states["unsent"], states["refused"]+states["closed"], states["expired"])
	i.faults()
	return all
}

func (i *installation) write(dir, name, text string) {
	i.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		i.t.Fatal(err)
	}
}

// writeCertificate makes a certificate that signs itself, and its key, under the names
// that rails/railconfig/example.yaml has.
func (i *installation) writeCertificate(dir string) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		i.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		i.t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	secret := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	for _, name := range []string{"bank-ca.pem", "client.pem", "nats-ca.pem", "nats.pem", "kafka-ca.pem", "kafka.pem"} {
		i.write(dir, name, public)
	}
	for _, name := range []string{"client.key", "nats.key", "kafka.key"} {
		i.write(dir, name, secret)
	}
	i.write(dir, "nats.creds", "no server is asked for them here")
}
