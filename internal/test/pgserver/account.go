package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dropTo are the accounts under which a server started by root may run, the preferred one first.
// Debian and Red Hat create "postgres" with the package; a container with downloaded programs only
// has "nobody".
var dropTo = []string{"postgres", "nobody"}

// account is the account under which PostgreSQL's processes run.
type account struct {
	name string
	uid  uint32
	gid  uint32
	drop bool // true: we are root and switch to this account
}

// serverAccount returns the calling account, or for root the first unprivileged one of dropTo.
func serverAccount() (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		name := strconv.Itoa(uid)
		if u, err := user.LookupId(name); err == nil {
			name = u.Username // containers run uids that no passwd file knows
		}
		return account{name: name, uid: uint32(uid), gid: uint32(os.Getegid())}, nil
	}
	for _, name := range dropTo {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 != nil || err2 != nil || uid == 0 {
			continue
		}
		return account{name: name, uid: uint32(uid), gid: uint32(gid), drop: true}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL refuses to run as root, and there is no account %s to run it as: "+
		"create one (useradd --system postgres) or start as a normal user", strings.Join(dropTo, " or "))
}

// Credential returns the account under which servers run, or nil if it is that of this process. It
// is for programs that run a server of their own.
func Credential() (*syscall.Credential, error) {
	acct, err := serverAccount()
	if err != nil || !acct.drop {
		return nil, err
	}
	return &syscall.Credential{Uid: acct.uid, Gid: acct.gid}, nil
}

// apply makes cmd run under a. It removes the caller's PG* variables from the environment: PGDATA
// or PGPORT must not redirect a private server.
func (a account) apply(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "LC_") && !strings.HasPrefix(kv, "LANG") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
}

// own makes a the owner of path. It does nothing for a normal user.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// Reachable reports whether the account that a server would run as can enter dir and every folder
// above it. The error names the folder that stops it: a checkout below root's home (mode 0700) is
// the usual one. Parts of the path that don't exist yet are no obstacle.
func Reachable(dir string) error {
	acct, err := serverAccount()
	if err != nil {
		return err
	}
	return acct.reach(dir)
}

// reach checks dir and the folders above it, first by their real names: a shell may have come here
// by a symbolic link.
func (a account) reach(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	real, err := realPath(dir)
	if err != nil {
		return err
	}
	if err := a.reachAbove(real); err != nil {
		return err
	}
	return a.reachAbove(dir)
}

// realPath resolves the symbolic links in the part of the path that exists, and drops the rest.
func realPath(path string) (string, error) {
	for {
		real, err := filepath.EvalSymlinks(path)
		if !errors.Is(err, os.ErrNotExist) {
			return real, err
		}
		path = filepath.Dir(path)
	}
}

// reachAbove checks dir and the folders that its name consists of.
func (a account) reachAbove(dir string) error {
	for {
		fi, err := os.Stat(dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case !fi.IsDir():
			return fmt.Errorf("%s is not a folder", dir)
		case a.drop && !a.mayEnter(fi):
			return fmt.Errorf("account %s, which the server runs as, may not enter %s (mode %s)", a.name, dir, fi.Mode().Perm())
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

func (a account) mayEnter(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	switch {
	case st.Uid == a.uid:
		return fi.Mode()&0o100 != 0
	case st.Gid == a.gid:
		return fi.Mode()&0o010 != 0
	default:
		return fi.Mode()&0o001 != 0
	}
}
