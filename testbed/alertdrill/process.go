package alertdrill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

// process is a child that dies with this process and is never started again by
// itself.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	over chan struct{} // closed when it has ended
}

func startProcess(dir, name, binary string, env []string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), over: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = append(clean(os.Environ()), env...), log, log, dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	exited, err := guarded.Start(p.cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		<-exited
		close(p.over)
	}()
	return p, nil
}

// clean leaves out what would lead a child to another installation.
func clean(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "RAILHEAD_") && !strings.HasPrefix(kv, "DATABASE_URL=") && !strings.HasPrefix(kv, "PG") {
			kept = append(kept, kv)
		}
	}
	return kept
}

func (p *process) alive() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// end sends a signal and waits for the end; what does not obey is killed.
func (p *process) end(sig syscall.Signal) error {
	if p == nil || !p.alive() {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return err
	}
	select {
	case <-p.over:
		return nil
	case <-time.After(30 * time.Second):
		err := p.cmd.Process.Kill()
		<-p.over
		return errors.Join(fmt.Errorf("%s did not end and was killed; its log is %s", p.name, p.log), err)
	}
}

// startedWithin bounds how long a child may take until it can work. The machine
// may be shared.
const startedWithin = 40 * time.Second

// awaitFile waits for the file in which a child says where it listens.
func (p *process) awaitFile(ctx context.Context, path string) (string, error) {
	text := ""
	err := await(ctx, startedWithin, p.name+" to listen", func() (bool, error) {
		if !p.alive() {
			return false, fmt.Errorf("%s ended; its log is %s", p.name, p.log)
		}
		read, err := os.ReadFile(path)
		text = strings.TrimSpace(string(read))
		return err == nil && text != "", nil
	})
	return text, err
}

// awaitReady waits until a child says that it can work.
func (p *process) awaitReady(ctx context.Context, addr string) error {
	client := &http.Client{Timeout: time.Second}
	return await(ctx, startedWithin, p.name+" to be ready", func() (bool, error) {
		if !p.alive() {
			return false, fmt.Errorf("%s ended; its log is %s", p.name, p.log)
		}
		answer, err := client.Get("http://" + addr + "/readyz")
		if err != nil {
			return false, nil
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
}

// await polls until done, an error, the bound or the context's end.
func await(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("waited %s for %s", within, what))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
