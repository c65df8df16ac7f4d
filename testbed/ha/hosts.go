package ha

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/testbed/faults"
)

// hostCount is the number of database hosts.
const hostCount = 3

// secret is the password of every login of the cell.
const secret = "notasecret"

// database is the database of the page.
const database = "payments"

// diskMiB is the size of the file system of a host's data, where this process may mount one.
const diskMiB = 1024

// Hosts are the machines of the page: three of the database, and that of the applications.
type Hosts struct {
	dir      string
	subnet   string // such as "127.93."
	path     string // of the programs
	pgbin    string
	as       *syscall.Credential
	blocks   []block
	db       []*host
	services map[string]*child.Process // of the host of the applications
	mounted  bool                      // each host's data is on a file system of its own
	more     []string                  // variables of the host of the applications
}

// host is a database host.
type host struct {
	all      *Hosts
	n        int // from 1
	name     string
	services map[string]*child.Process
	inbound  []*faults.Wire // what others reach on it
	outbound []*faults.Wire // its way to etcd
}

// Programs says where the programs of a run are.
type Programs struct {
	Root     string // the repository
	Railhead string // the folder of the binary railhead; it may be empty
}

// NewHosts prepares the machines: folders, addresses, networks. Nothing is started.
func NewHosts(ctx context.Context, p Programs) (_ *Hosts, err error) {
	h := &Hosts{services: make(map[string]*child.Process)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if h.blocks, err = readPage(filepath.Join(p.Root, "docs/operations.md")); err != nil {
		return nil, err
	}
	if h.as, err = pgserver.Credential(); err != nil {
		return nil, err
	}
	found, err := pgserver.Find(ctx, 0)
	if err != nil {
		return nil, err
	}
	h.pgbin = found.Dir
	install := exec.CommandContext(ctx, filepath.Join(p.Root, "scripts/install-ha.sh"))
	install.Stderr = os.Stderr
	bin, err := install.Output()
	if err != nil {
		return nil, fmt.Errorf("installing Patroni, etcd and HAProxy: %w", err)
	}
	h.path = strings.TrimSpace(string(bin)) + ":" + h.pgbin + ":" + os.Getenv("PATH")
	if p.Railhead != "" {
		h.path = p.Railhead + ":" + h.path
	}
	// The path of a unix socket has to be short.
	if h.dir, err = os.MkdirTemp("/tmp", "ha-"); err != nil {
		return nil, err
	}
	if h.subnet, err = freeSubnet(); err != nil {
		return nil, err
	}
	for _, folder := range []string{"backup", "application"} {
		if err := h.folder(folder); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(h.dir, 0o755); err != nil {
		return nil, err
	}
	h.mounted = os.Geteuid() == 0
	for n := range hostCount {
		one, err := h.newHost(n + 1)
		if err != nil {
			return nil, err
		}
		h.db = append(h.db, one)
	}
	return h, nil
}

// freeSubnet draws a part of 127.0.0.0/8 in which no process listens at the ports of the
// page.
func freeSubnet() (string, error) {
	for range 20 {
		subnet := fmt.Sprintf("127.%d.", 2+rand.IntN(250))
		free := true
		for _, port := range []string{"5432", "8008", "2379"} {
			listener, err := net.Listen("tcp", subnet+"1.1:"+port)
			if err != nil {
				free = false
				continue
			}
			listener.Close()
		}
		if free {
			return subnet, nil
		}
	}
	return "", errors.New("no part of 127.0.0.0/8 is free: are the ports 5432, 8008 and 2379 bound on all addresses?")
}

// folder creates a folder of the account of the servers.
func (h *Hosts) folder(name string) error {
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil || h.as == nil {
		return err
	}
	return os.Chown(path, int(h.as.Uid), int(h.as.Gid))
}

// newHost creates the folders and the network of a database host.
func (h *Hosts) newHost(n int) (*host, error) {
	one := &host{all: h, n: n, name: fmt.Sprintf("db%d", n), services: make(map[string]*child.Process)}
	for _, folder := range []string{one.name, one.name + "/etc", one.name + "/disk"} {
		if err := h.folder(folder); err != nil {
			return nil, err
		}
	}
	if h.mounted {
		disk := filepath.Join(h.dir, one.name, "disk")
		options := fmt.Sprintf("mode=700,uid=%d,gid=%d,size=%dm", h.as.Uid, h.as.Gid, diskMiB)
		if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, options); err != nil {
			h.mounted = false // as in a container: no disk can be filled
		}
	}
	for _, port := range []string{"5432", "8008"} {
		wire, err := faults.NewWire(one.name+"-"+port, one.address()+":"+port, one.listen()+":"+port)
		if err != nil {
			return nil, err
		}
		one.inbound = append(one.inbound, wire)
	}
	for etcd := range hostCount {
		wire, err := faults.NewWire(fmt.Sprintf("%s-etcd%d", one.name, etcd+1), one.etcd(etcd+1),
			fmt.Sprintf("%s1.%d:2379", h.subnet, etcd+1))
		if err != nil {
			return nil, err
		}
		one.outbound = append(one.outbound, wire)
	}
	return one, nil
}

func (o *host) listen() string  { return fmt.Sprintf("%s1.%d", o.all.subnet, o.n) }
func (o *host) address() string { return fmt.Sprintf("%s2.%d", o.all.subnet, o.n) }
func (o *host) etcd(n int) string {
	return fmt.Sprintf("%s%d.%d:2379", o.all.subnet, 10+o.n, n)
}
func (o *host) pgdata() string { return filepath.Join(o.all.dir, o.name, "disk", "data") }
func (o *host) log(service string) string {
	return filepath.Join(o.all.dir, o.name+"-"+service+".log")
}

// proxy is where HAProxy listens.
func (h *Hosts) proxy() string { return h.subnet + "3.1:5432" }

// URL returns the connection string of a login through HAProxy; "" is the superuser.
func (h *Hosts) URL(database, login string) string { return connString(h.proxy(), database, login) }

// direct returns the connection string to one host, whatever its PostgreSQL is.
func (o *host) direct(database, login string) string {
	return connString(o.listen()+":5432", database, login)
}

func connString(addr, database, login string) string {
	if login == "" {
		login = pgserver.Superuser
	}
	return "postgres://" + login + ":" + secret + "@" + addr + "/" + database +
		"?target_session_attrs=read-write&sslmode=disable&connect_timeout=4"
}

// env returns the variables of the page on a database host.
func (o *host) env() []string {
	h := o.all
	hosts := make([]string, 0, hostCount)
	for n := range hostCount {
		hosts = append(hosts, o.etcd(n+1))
	}
	env := append(h.common("1."), "NODE="+o.name, "ADDRESS="+o.address(), "LISTEN="+o.listen(),
		"ETCD_HOSTS="+strings.Join(hosts, ","), "NETWORK=127.0.0.0/8", "ETC="+filepath.Join(h.dir, o.name, "etc"),
		"PGDATA="+o.pgdata(), "PGBIN="+h.pgbin, "BACKUP="+filepath.Join(h.dir, "backup"))
	for _, name := range []string{"SUPERUSER", "REPLICATION", "REWIND"} {
		env = append(env, name+"_PASSWORD="+secret)
	}
	return env
}

// application returns the variables of the page on the host of the applications.
func (h *Hosts) application() []string {
	env := append(h.common("2."), "ETC="+filepath.Join(h.dir, "application"), "PROXY="+h.proxy(),
		"RAILHEAD_ADMIN_URL="+h.URL(database, ""))
	return append(env, h.more...)
}

func (h *Hosts) common(network string) []string {
	env := []string{"PATH=" + h.path, "LC_ALL=C.UTF-8", "HOME=" + h.dir}
	for n := range hostCount {
		env = append(env, fmt.Sprintf("DB%d=%s%s%d", n+1, h.subnet, network, n+1))
	}
	return env
}

// Close ends everything, and leaves the logs.
func (h *Hosts) Close() error {
	var all []error
	for _, p := range h.services {
		if p.Alive() {
			all = append(all, p.Kill())
		}
	}
	for _, one := range h.db {
		all = append(all, one.thaw(), one.kill())
		if p := one.services["etcd"]; p != nil && p.Alive() {
			all = append(all, p.Kill())
		}
		for _, wire := range append(one.inbound, one.outbound...) {
			wire.Close()
		}
		if h.mounted {
			all = append(all, syscall.Unmount(filepath.Join(h.dir, one.name, "disk"), syscall.MNT_DETACH))
		}
	}
	return errors.Join(all...)
}

// Discard removes the folder.
func (h *Hosts) Discard() error { return os.RemoveAll(h.dir) }
