package pgserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

// configName is our configuration file in the data folder. ALTER SYSTEM still overrides what it
// sets.
const configName = "railhead.conf"

const includeLine = "include_if_exists = '" + configName + "'"

// prepare makes folders and the data in them. A crash between its steps leaves a temporary folder
// for the next sweep, or a folder <data>.new for the next start.
func (s *Server) prepare(ctx context.Context) (err error) {
	if err := s.acct.reach(s.opts.TempRoot); err != nil {
		return err
	}
	run, lock, err := makeTemp(s.opts.TempRoot, s.acct)
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	s.run, s.locks = run, append(s.locks, lock)
	if s.logPath == "" {
		s.logPath = filepath.Join(run, logName)
	}
	if s.data == "" {
		s.data = filepath.Join(run, dataName)
		err = s.initdb(ctx, s.data)
	} else {
		err = s.openData(ctx)
	}
	if err != nil {
		return err
	}
	return s.chooseTCP()
}

// openData takes the owner lock of a lasting data folder, stops an orphan on it and creates it if
// it does not exist.
func (s *Server) openData(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.data), 0o755); err != nil {
		return err
	}
	if err := s.acct.reach(filepath.Dir(s.data)); err != nil {
		return err
	}
	lock, err := lockFile(s.data + ".lock")
	if err != nil {
		return fmt.Errorf("data folder %s: %w", s.data, err)
	}
	s.locks = append(s.locks, lock)
	if pid, err := stopOrphan(s.data); err != nil {
		return err
	} else if pid != 0 {
		s.note(fmt.Sprintf("stopped postgres %d, left running on %s by an earlier run", pid, s.data))
	}
	major, err := clusterMajor(s.data)
	if err != nil || major != 0 {
		return err
	}
	fresh := s.data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := s.initdb(ctx, fresh); err != nil {
		return err
	}
	if err := os.Remove(s.data); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.note("created " + s.data)
	return os.Rename(fresh, s.data)
}

// clusterMajor returns the major version that a data folder was created with, or 0 if there is none
// yet. A folder with other content is an error: this package must not fill it.
func clusterMajor(data string) (int, error) {
	b, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err == nil {
		major, err := strconv.Atoi(string(bytes.TrimSpace(b)))
		if err != nil {
			return 0, fmt.Errorf("version of data folder %s: %w", data, err)
		}
		return major, nil
	}
	entries, err := os.ReadDir(data)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is neither empty nor a data folder of PostgreSQL", data)
	}
	return 0, err
}

func (s *Server) initdb(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := s.acct.own(dir); err != nil {
		return err
	}
	args := []string{"-D", dir, "-U", Superuser, "--auth-local=trust", "--auth-host=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions"}
	if s.opts.DataDir == "" {
		args = append(args, "--no-sync") // a temporary cluster never survives the machine
	}
	var out bytes.Buffer
	cmd := exec.Command(s.bin.Path("initdb"), args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = &out, &out
	s.acct.apply(cmd)
	exited, err := guarded.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("starting initdb as account %s: %w", s.acct.name, err)
	}
	select {
	case err = <-exited:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-exited
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", dir, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

var settingName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

func checkSettings(settings map[string]string) error {
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		if !settingName.MatchString(k) {
			errs = append(errs, fmt.Errorf("setting %q: not the name of a setting", k))
		}
		if strings.ContainsAny(settings[k], "\n\r\x00") {
			errs = append(errs, fmt.Errorf("setting %s: line break in the value", k))
		}
	}
	return errors.Join(errs...)
}

// writeConfig writes our settings and makes sure that postgresql.conf reads them: a folder that was
// copied from elsewhere may not include them yet.
func (s *Server) writeConfig() error {
	var b strings.Builder
	set := func(k, v string) { fmt.Fprintf(&b, "%s = '%s'\n", k, strings.ReplaceAll(v, "'", "''")) }
	b.WriteString("# Written at every start; ALTER SYSTEM overrides it.\n")
	set("timezone", "UTC")
	set("log_timezone", "UTC")
	for _, k := range slices.Sorted(maps.Keys(s.opts.Settings)) {
		set(k, s.opts.Settings[k])
	}
	// These come last, so that no setting of the caller opens the server to others.
	listen := ""
	if s.tcp != nil {
		listen = s.tcp.IP.String()
	}
	set("listen_addresses", listen)
	set("port", strconv.Itoa(s.port))
	set("unix_socket_directories", s.run)
	set("unix_socket_permissions", "0700")
	path := filepath.Join(s.data, configName)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return err
	}
	if err := s.acct.own(path); err != nil {
		return err
	}
	return appendLine(filepath.Join(s.data, "postgresql.conf"), includeLine)
}

func appendLine(path, line string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if slices.Contains(strings.Split(string(old), "\n"), line) {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + line + "\n")
	return errors.Join(err, f.Close())
}

// chooseTCP fixes the TCP port for the life of the server, so that clients and proxies find it
// again after a restart. Between choosing and binding another program could take it; the start
// then fails with that error.
func (s *Server) chooseTCP() error {
	if s.opts.TCP == "" {
		return nil
	}
	addr, err := loopback(s.opts.TCP)
	if err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return fmt.Errorf("TCP address: %w", err)
	}
	s.tcp, _ = l.Addr().(*net.TCPAddr)
	s.port = s.tcp.Port
	s.password = rand.Text()
	return l.Close()
}

func loopback(address string) (*net.TCPAddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("TCP address: %w", err)
	}
	if !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("TCP address %s: only loopback addresses are allowed", address)
	}
	return addr, nil
}

// AllowTCP lets logins connect over TCP: it gives each the password that [Server.TCPURL] carries.
func (s *Server) AllowTCP(ctx context.Context, users ...string) (err error) {
	if s.tcp == nil {
		return errors.New("server has no TCP port")
	}
	conn, err := pgx.Connect(ctx, s.URL("postgres", Superuser))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, u := range users {
		// rand.Text is base32: nothing in it needs quoting.
		q := "ALTER ROLE " + pgx.Identifier{u}.Sanitize() + " PASSWORD '" + s.password + "'"
		if _, err := conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("password of %s: %w", u, err)
		}
	}
	return nil
}
