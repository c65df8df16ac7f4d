package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Environment variables that [Find] reads.
const (
	// EnvBin names the one folder with PostgreSQL's programs to use; nothing else is searched then.
	EnvBin = "RAILHEAD_PG_BIN"
	// EnvMajor is the major version to use where the caller wants none in particular, for example 18.
	EnvMajor = "RAILHEAD_PG_MAJOR"
	// EnvCache is the folder below which scripts/install-postgres.sh unpacks downloads.
	EnvCache = "RAILHEAD_PG_CACHE"
)

// MinMajor is the oldest major version that Railhead's schema supports.
const MinMajor = 15

// versionTimeout bounds one `postgres --version`.
const versionTimeout = 10 * time.Second

// ErrNotFound means that no usable PostgreSQL is on this machine; the error that wraps it says
// what to install.
var ErrNotFound = errors.New("no usable PostgreSQL found")

// Binaries is one installation of PostgreSQL.
type Binaries struct {
	Dir     string // the folder with the programs, absolute
	Major   int    // 15, 16, ...
	Version string // as the server prints it, for example "15.18 (Debian 15.18-0+deb12u1)"
	Source  string // where it was found: "RAILHEAD_PG_BIN", "pg_config", "debian", "homebrew", "PATH", "download"

	// Missing lists the optional programs that this installation lacks (of psql, pg_basebackup,
	// pgbench).
	Missing []string
}

// Path returns the absolute path of one program. It does not check that an optional one exists; see
// Missing.
func (b Binaries) Path(program string) string { return filepath.Join(b.Dir, program) }

// Find looks for PostgreSQL programs of the wanted major version; 0 means the version that
// RAILHEAD_PG_MAJOR names, or else any from [MinMajor] up.
//
// It looks in RAILHEAD_PG_BIN (alone, when set), then at `pg_config --bindir`, Debian's and
// Homebrew's folders, PATH, and what scripts/install-postgres.sh has downloaded. The first source
// with a fitting installation wins, so that the machine's own choice of version counts; inside one
// source the newest wins. An installation counts only if the account that the server will run as
// can execute it.
//
// The error wraps [ErrNotFound], lists what was looked at and says what to install.
func Find(ctx context.Context, major int) (Binaries, error) {
	if major == 0 {
		m, err := majorFromEnv()
		if err != nil {
			return Binaries{}, err
		}
		major = m
	}
	acct, err := serverAccount()
	if err != nil {
		return Binaries{}, err
	}
	var rejected []string
	for _, src := range sources(ctx) {
		var best Binaries
		for _, dir := range src.dirs {
			b, err := inspect(ctx, acct, dir)
			switch {
			case errors.Is(err, os.ErrNotExist) && src.name != EnvBin:
			case err != nil:
				rejected = append(rejected, fmt.Sprintf("%s: %v", dir, err))
			case major != 0 && b.Major != major:
				rejected = append(rejected, fmt.Sprintf("%s: version %d, wanted %d", dir, b.Major, major))
			case b.Major < MinMajor:
				rejected = append(rejected, fmt.Sprintf("%s: version %d is older than %d", dir, b.Major, MinMajor))
			case b.Major > best.Major:
				best = b
				best.Source = src.name
			}
		}
		if best.Major != 0 {
			return best, nil
		}
	}
	return Binaries{}, notFound(major, rejected)
}

func majorFromEnv() (int, error) {
	v := os.Getenv(EnvMajor)
	if v == "" {
		return 0, nil
	}
	m, err := strconv.Atoi(v)
	if err != nil || m < MinMajor || m > 99 {
		return 0, fmt.Errorf("%s=%q: want a major version from %d up", EnvMajor, v, MinMajor)
	}
	return m, nil
}

type source struct {
	name string
	dirs []string
}

func sources(ctx context.Context) []source {
	if dir := os.Getenv(EnvBin); dir != "" {
		return []source{{EnvBin, []string{dir}}}
	}
	return []source{
		{"pg_config", pgConfigDir(ctx)},
		{"debian", globAll("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")},
		{"homebrew", globAll(
			"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
			"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin")},
		{"PATH", pathDir()},
		{"download", globAll(downloads()...)},
	}
}

func pgConfigDir(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output()
	if err != nil {
		return nil // absent or broken: one source fewer, the others decide
	}
	return []string{strings.TrimSpace(string(out))}
}

func pathDir() []string {
	p, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(p); err == nil {
		p = real // initdb lies next to the real file, not always next to the link
	}
	return []string{filepath.Dir(p)}
}

// downloads returns the patterns under which scripts/install-postgres.sh leaves installations:
// <cache>/<major>/bin.
func downloads() []string {
	var roots []string
	if dir := os.Getenv(EnvCache); dir != "" {
		roots = append(roots, dir)
	}
	if root, ok := moduleRoot(); ok {
		roots = append(roots, filepath.Join(root, "build", "pg"))
	}
	if dir, err := os.UserCacheDir(); err == nil {
		roots = append(roots, filepath.Join(dir, "railhead", "pg"))
	}
	roots = append(roots, "/var/cache/railhead/pg")
	for i, r := range roots {
		roots[i] = filepath.Join(r, "[0-9][0-9]", "bin")
	}
	return roots
}

// moduleRoot returns the nearest folder upwards with a go.mod: tests run in the folder of their
// package.
func moduleRoot() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

func globAll(patterns ...string) []string {
	var dirs []string
	for _, p := range patterns {
		m, err := filepath.Glob(p)
		if err != nil {
			continue // a pattern character in a user's path; that folder is then not searched
		}
		dirs = append(dirs, m...)
	}
	return dirs
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) ((\d+)\S*.*)`)

// inspect checks that dir holds the programs we need, runnable by acct, and asks for their version.
// The error is os.ErrNotExist if there is no postgres in dir at all.
func inspect(ctx context.Context, acct account, dir string) (Binaries, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // programs look for their other files relative to the real folder
	}
	if err != nil {
		return Binaries{}, err
	}
	b := Binaries{Dir: dir}
	for _, p := range []string{"postgres", "initdb", "pg_ctl"} {
		if _, err := os.Stat(b.Path(p)); err != nil {
			return Binaries{}, err
		}
	}
	for _, p := range []string{"psql", "pg_basebackup", "pgbench"} {
		if _, err := os.Stat(b.Path(p)); err != nil {
			b.Missing = append(b.Missing, p)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.Path("postgres"), "--version")
	cmd.Dir = "/"
	acct.apply(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Binaries{}, fmt.Errorf("account %s can't run postgres: %w %s", acct.name, err, firstLine(out))
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return Binaries{}, fmt.Errorf("unexpected version line %q", firstLine(out))
	}
	b.Version = strings.TrimSpace(string(m[1]))
	b.Major, err = strconv.Atoi(string(m[2]))
	return b, err
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return string(line)
}

func notFound(major int, rejected []string) error {
	var sb strings.Builder
	want, pkg := fmt.Sprintf("%d or newer", MinMajor), ""
	if major != 0 {
		want, pkg = strconv.Itoa(major), " "+strconv.Itoa(major)
	}
	fmt.Fprintf(&sb, "wanted version %s with initdb, pg_ctl and postgres", want)
	if os.Getenv(EnvBin) != "" {
		fmt.Fprintf(&sb, " in %s, which is set, so that nothing else was searched", EnvBin)
	}
	slices.Sort(rejected)
	for _, r := range slices.Compact(rejected) {
		fmt.Fprintf(&sb, "\n  not used: %s", r)
	}
	lines := []struct{ os, text string }{
		{"linux", "Debian, Ubuntu:  apt-get install postgresql"},
		{"linux", "Fedora, RHEL:    dnf install postgresql-server"},
		{"darwin", "macOS:           brew install postgresql@18"},
	}
	for _, l := range lines {
		if l.os == runtime.GOOS || (runtime.GOOS != "linux" && runtime.GOOS != "darwin") {
			fmt.Fprintf(&sb, "\n  %s", l.text)
		}
	}
	fmt.Fprintf(&sb, "\n  or, in a checkout: scripts/install-postgres.sh%s", pkg)
	fmt.Fprintf(&sb, "\n  or name the folder with the programs in %s, or a running server in TEST_DATABASE_URL", EnvBin)
	return fmt.Errorf("%w: %s", ErrNotFound, sb.String())
}
