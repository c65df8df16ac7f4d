package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
)

// envBouncer is the environment variable that names PgBouncer's program, where it is
// neither in the path nor unpacked by scripts/install-fault-tools.sh.
const envBouncer = "RAILHEAD_PGBOUNCER"

// findBouncer returns PgBouncer's program, and the folder of its libraries if they are
// next to it.
func findBouncer() (program, libraries string, err error) {
	if named := os.Getenv(envBouncer); named != "" {
		return named, "", nil
	}
	for _, root := range []string{"/var/cache/railhead/pgbouncer", "build/pgbouncer", "../../build/pgbouncer"} {
		if found, err := filepath.Glob(filepath.Join(root, "usr/lib/*/libcares.so.2")); err == nil && len(found) == 1 {
			program, err := filepath.Abs(filepath.Join(root, "usr/sbin/pgbouncer"))
			return program, filepath.Dir(found[0]), err
		}
	}
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if found, err := exec.LookPath(name); err == nil {
			return found, "", nil
		}
	}
	return "", "", errors.New("PgBouncer is not here: scripts/install-fault-tools.sh unpacks it, or name it in " +
		envBouncer)
}

// bouncer is a PgBouncer in transaction mode in front of the lane's server. It listens on
// a unix socket in a folder of its own, and ends with this process.
type bouncer struct {
	program, libraries, dir string
	account                 *syscall.Credential // PgBouncer refuses to run as root
	process                 *child.Process
}

const bouncerPort = 6432

// newBouncer starts a PgBouncer with few connections to the server, so that sessions are
// shared.
func (w *World) newBouncer(ctx context.Context) (*bouncer, error) {
	b := &bouncer{}
	var err error
	if b.program, b.libraries, err = findBouncer(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("/tmp", "bouncer-"); err != nil {
		return nil, err
	}
	w.ends = append(w.ends, func(context.Context) error {
		b.kill()
		return os.RemoveAll(b.dir)
	})
	if os.Geteuid() == 0 {
		account, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		uid, err1 := strconv.ParseUint(account.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(account.Gid, 10, 32)
		if err := errors.Join(err1, err2, os.Chown(b.dir, int(uid), int(gid))); err != nil {
			return nil, err
		}
		b.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	var users strings.Builder
	password, _ := w.tcp("").User.Password()
	for login := range logins {
		fmt.Fprintf(&users, "%q %q\n", login, password)
	}
	server := w.tcp("")
	settings := fmt.Sprintf("[databases]\n%s = host=%s port=%s dbname=%s\n[pgbouncer]\nlisten_addr =\nlisten_port = "+
		"%d\nunix_socket_dir = %s\n"+
		"auth_type = trust\nauth_file = %s/users\npool_mode = transaction\ndefault_pool_size = 3\nserver_login_retry = "+
		"1\nlogfile = %s/log\n",
		w.database, server.Hostname(), server.Port(), w.database, bouncerPort, b.dir, b.dir, b.dir)
	for name, text := range map[string]string{"users": users.String(), "bouncer.ini": settings} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return b, b.start(ctx, w.database)
}

// tcp returns the URL of the server over TCP, with the password of the logins.
func (w *World) tcp(login string) *url.URL {
	parsed, err := url.Parse(w.Lane.Server.TCPURL(w.Lane.Server.TCPAddr(), w.database, cmp.Or(login, loginRelayer)))
	if err != nil {
		panic(err) // we wrote it ourselves
	}
	return parsed
}

// url returns the URL by which a login connects through the pooler.
func (b *bouncer) url(database, login string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s&port=%d&sslmode=disable&default_query_exec_mode=cache_describe", login,
		database, b.dir, bouncerPort)
}

func (b *bouncer) start(ctx context.Context, database string) error {
	var err error
	if b.process, err = (child.Command{
		Name: "PgBouncer", Binary: b.program, Args: []string{filepath.Join(b.dir, "bouncer.ini")}, Dir: "/",
		Log: os.DevNull, As: b.account,
		Env: append(child.Clean(os.Environ()), "LD_LIBRARY_PATH="+b.libraries),
	}).Start(); err != nil {
		return err
	}
	var last error
	err = await.Until(ctx, startedWithin, "PgBouncer to answer", func() (bool, error) {
		var conn *pgx.Conn
		if conn, last = pgx.Connect(ctx, b.url(database, loginReadonly)); last != nil {
			return false, nil
		}
		return true, conn.Close(ctx)
	})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(b.dir, "log"))
		return fmt.Errorf("%w (%w)\n%s", err, last, log)
	}
	return nil
}

// kill ends PgBouncer and every connection through it.
func (b *bouncer) kill() {
	if b.process != nil {
		_ = b.process.Kill() // it may have ended
		b.process = nil
	}
}

// restart kills PgBouncer under load and starts it again.
func (b *bouncer) restart(ctx context.Context, database string) error {
	b.kill()
	if err := os.Remove(filepath.Join(b.dir, fmt.Sprintf(".s.PGSQL.%d", bouncerPort))); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return err
	}
	return b.start(ctx, database)
}
