package localrun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

// process is a child that is started again when it dies before it is told to.
type process struct {
	name   string
	binary string
	args   []string
	env    []string
	log    string
	say    func(string, ...any)

	mu       sync.Mutex
	cmd      *exec.Cmd
	stopping bool
	over     chan struct{} // closed when it will not be started again
}

// restartsMax bounds how often a child is started again.
const restartsMax = 1000

// startProcess starts a child of its own process group: a Ctrl-C in the
// terminal reaches this process alone, which then stops the children in order.
func (i *installation) startProcess(name, binary string, env []string, args ...string) (*process, error) {
	p := &process{
		name: name, binary: binary, args: args, env: append(os.Environ(), env...),
		log: filepath.Join(i.Dir, "log", name+".log"), say: i.say, over: make(chan struct{}),
	}
	exited, err := p.start()
	if err != nil {
		return nil, err
	}
	go p.supervise(exited)
	return p, nil
}

func (p *process) start() (<-chan error, error) {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return nil, errors.New("stopping")
	}
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.env, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	exited, err := guarded.Start(p.cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return exited, nil
}

func (p *process) supervise(exited <-chan error) {
	defer close(p.over)
	for range restartsMax {
		err := <-exited
		if p.isStopping() {
			return
		}
		p.say("%s: process %d ended (%v); starting it again", p.name, p.pid(), err)
		time.Sleep(200 * time.Millisecond) // a child that can't start must not spin
		if exited, err = p.start(); err != nil {
			if !p.isStopping() {
				p.say("%s: %v", p.name, err)
			}
			return
		}
	}
	p.say("%s: started %d times, giving up; its log is %s", p.name, restartsMax, p.log)
}

func (p *process) isStopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping
}

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// stop asks the child to end, and kills it after the wait.
func (p *process) stop(wait time.Duration) error {
	p.mu.Lock()
	p.stopping = true
	p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	p.mu.Unlock()
	select {
	case <-p.over:
		return nil
	case <-time.After(wait):
	}
	p.mu.Lock()
	p.cmd.Process.Kill()
	p.mu.Unlock()
	<-p.over
	return fmt.Errorf("%s did not end within %s and was killed; its log is %s", p.name, wait, p.log)
}

// startWithin bounds how long a child may take until it can work.
const startWithin = 30 * time.Second

// awaitFile waits for the file in which a child says where it listens.
func (p *process) awaitFile(ctx context.Context, path string) (string, error) {
	var text string
	err := p.await(ctx, func() error {
		read, err := os.ReadFile(path)
		text = strings.TrimSpace(string(read))
		if err == nil && text == "" {
			return errors.New("empty")
		}
		return err
	})
	return text, err
}

// awaitReady waits until a child can work.
func (p *process) awaitReady(ctx context.Context, url string) error {
	client := &http.Client{Timeout: time.Second}
	return p.await(ctx, func() error {
		answer, err := client.Get(url)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}

func (p *process) await(ctx context.Context, done func() error) error {
	deadline := time.After(startWithin)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.over:
			return fmt.Errorf("%s ended; its log is %s", p.name, p.log)
		case <-deadline:
			return fmt.Errorf("%s was not ready within %s (%w); its log is %s", p.name, startWithin, err, p.log)
		case <-tick.C:
		}
	}
}
