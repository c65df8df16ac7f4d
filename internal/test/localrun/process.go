package localrun

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/test/child"
)

// process is a child that is restarted when it dies before it was told to end.
type process struct {
	child.Command
	say func(string, ...any)

	mu       sync.Mutex
	now      *child.Process
	stopping bool
	over     chan struct{} // closed when it will not be started again
}

// restartsMax bounds how often a child is restarted.
const restartsMax = 1000

func (i *installation) startProcess(name, binary string, env []string, args ...string) (*process, error) {
	p := &process{
		Command: child.Command{Name: name, Binary: binary, Args: args, Env: i.environment(env...),
			Log: filepath.Join(i.Dir, "log", name+".log")},
		say: i.say, over: make(chan struct{}),
	}
	if err := p.start(); err != nil {
		return nil, err
	}
	go p.supervise()
	return p, nil
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return errors.New("stopping")
	}
	now, err := p.Command.Start()
	if err == nil {
		p.now = now
	}
	return err
}

func (p *process) supervise() {
	defer close(p.over)
	for range restartsMax {
		now := p.current()
		<-now.Over()
		died := now.Died()
		if p.isStopping() {
			return
		}
		p.say("%v; starting it again", died)
		time.Sleep(200 * time.Millisecond) // a child that can't start must not spin
		if err := p.start(); err != nil {
			if !p.isStopping() {
				p.say("%s: %v", p.Name, err)
			}
			return
		}
	}
	p.say("%s: started %d times, giving up; its log is %s", p.Name, restartsMax, p.Log)
}

func (p *process) isStopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping
}

// current returns the child that was started last.
func (p *process) current() *child.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// stop asks the child to end, and kills it after the wait.
func (p *process) stop(wait time.Duration) error {
	p.mu.Lock()
	p.stopping = true
	now := p.now
	p.mu.Unlock()
	err := now.Stop(wait)
	<-p.over
	return err
}

// awaitFile waits for the file to which the child writes the address on which it listens.
func (p *process) awaitFile(ctx context.Context, path string) (string, error) {
	return p.current().AwaitFile(ctx, path)
}

// comesBackAt sets the address on which the child listens when it is restarted, by its first
// arguments.
func (p *process) comesBackAt(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Args = append([]string{"--listen", addr}, p.Args[2:]...)
}
