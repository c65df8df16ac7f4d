package systems

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// apiVariable, when it is set, makes a process that is started from this program the HTTP API of a
// run. Its value is the connection string of the API.
const apiVariable = "RAILHEAD_BENCH_API"

// apiConns is the number of connections that `railhead api` opens.
const apiConns = 8

// ServeAPI serves the HTTP API of a run, if this process was started for that: it prints its
// address, and serves until its input ends. It reports whether the process was started for that.
func ServeAPI(ctx context.Context) (bool, error) {
	url := os.Getenv(apiVariable)
	if url == "" {
		return false, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	store, err := door.Open(ctx, ledger.Config{URL: url, Cell: cell, Name: "bench-api", MaxConns: apiConns})
	if err != nil {
		return true, err
	}
	defer store.Close()
	made, err := api.New(api.Config{ConnectionsMax: 3000, StreamsMax: 2500}, store, nil, quiet())
	if err != nil {
		return true, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return true, err
	}
	fmt.Println(listener.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // however it ends, the run is over
		stop()
	}()
	return true, made.Serve(ctx, listener)
}

// apiProcess is an HTTP API in a process of its own, and a client of it.
type apiProcess struct {
	*httpclient.HTTP
	base  string // of its address
	token string
	cmd   *exec.Cmd
	input io.Closer
	idle  func()
}

// openAPI starts an API on a database, and makes a token for every participant.
func openAPI(ctx context.Context, db server.Database, callers int) (_ *apiProcess, err error) {
	var token string
	err = db.Do(ctx, func(conn *pgx.Conn) error {
		made := operator.NewToken{Name: "bench", Verbs: []string{outbox.VerbEnqueue, outbox.VerbRead},
			ExpiresAt: time.Now().Add(24 * time.Hour), Reason: "benchmark"}
		for n := range Participants {
			made.Participants = append(made.Participants, Participant(n))
		}
		var err error
		token, _, err = operator.CreateToken(ctx, conn, cell, made)
		return err
	})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &apiProcess{token: token, cmd: exec.Command(self)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), apiVariable+"="+db.URL(apiLogin)), os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is this process's to handle
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the API: %w", err)
	}
	addr, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the API did not start: %w", err), p.close())
	}
	transport := &http.Transport{MaxIdleConns: callers, MaxIdleConnsPerHost: callers}
	p.idle = transport.CloseIdleConnections
	p.base = "http://" + strings.TrimSpace(addr)
	p.HTTP, err = httpclient.NewHTTP(httpclient.Config{
		BaseURL: p.base, Token: func(context.Context) (string, error) { return token, nil },
		Transport: transport, Attempts: 1, Timeout: time.Minute,
	})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// close ends the process by closing its input.
func (p *apiProcess) close() error {
	if p.idle != nil {
		p.idle()
	}
	return errors.Join(p.input.Close(), p.cmd.Wait())
}
