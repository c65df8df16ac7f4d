package ha

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
)

// blockWithin bounds the commands of one block.
const blockWithin = 3 * time.Minute

// shell runs commands on a host, as bash reads them from a terminal.
func (h *Hosts) shell(ctx context.Context, text string, env []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, blockWithin, await.ErrNotInTime)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	command.Dir, command.Env = h.dir, env
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: h.as}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w (%w): %s\n%s", err, context.Cause(ctx), text, output)
	}
	return nil
}

// Step runs the blocks of one step of the page, in their order.
func (h *Hosts) Step(ctx context.Context, step string) error {
	ran := 0
	for _, b := range h.blocks {
		if b.step != step {
			continue
		}
		ran++
		if err := h.runBlock(ctx, b); err != nil {
			return fmt.Errorf("step %s, %s: %w", step, b.host, err)
		}
	}
	if ran == 0 {
		return fmt.Errorf("the page has no step %s", step)
	}
	return nil
}

func (h *Hosts) runBlock(ctx context.Context, b block) error {
	if b.host == "application host" {
		switch b.verb {
		case "service":
			return start(h.services, b, filepath.Join(h.dir, b.service+".log"), h.application(), h)
		case "stop":
			return h.services[b.service].Stop(stopWithin)
		}
		return h.shell(ctx, b.text, h.application())
	}
	hosts := make([]*host, 0, hostCount)
	for _, one := range h.db {
		if b.host == "each database host" || b.host == one.name {
			hosts = append(hosts, one)
		}
	}
	if b.verb == "stop" {
		return h.stop(ctx, b.service, hosts)
	}
	for _, one := range hosts {
		var err error
		if b.verb == "service" {
			err = one.start(b.service)
		} else {
			err = h.shell(ctx, b.text, one.env())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stopWithin bounds the end of a service that was asked to end.
const stopWithin = time.Minute

// stop ends a service on hosts as systemd does, the primary last.
func (h *Hosts) stop(ctx context.Context, service string, hosts []*host) error {
	last := h.primaries(ctx)
	slices.SortStableFunc(hosts, func(a, b *host) int {
		return cmp.Compare(slices.Index(last, a), slices.Index(last, b))
	})
	for _, one := range hosts {
		if err := one.services[service].Stop(stopWithin); err != nil {
			return err
		}
	}
	return nil
}

// start starts a service of a database host by its block of the page.
func (o *host) start(service string) error {
	for _, b := range o.all.blocks {
		if b.verb == "service" && b.service == service {
			return start(o.services, b, o.log(service), o.env(), o.all)
		}
	}
	return fmt.Errorf("the page has no service %s", service)
}

// start starts the one command of a service as a process, and not as a shell's child: it is
// killed and frozen as a process.
func start(services map[string]*child.Process, b block, log string, env []string, h *Hosts) error {
	p, err := child.Command{
		Name: b.service, Binary: "/bin/bash", Args: []string{"-euc", "exec " + b.text}, Env: env, Dir: h.dir, Log: log,
		As: h.as,
	}.Start()
	if err == nil {
		services[b.service] = p
	}
	return err
}
