package pgtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// helper runs another test binary against the cluster.
func helper(t *testing.T, c *Cluster, mode string) error {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+mode, pgserver.EnvURL+"="+c.adminURL)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return errors.Join(err, errors.New(out.String()))
	}
	return nil
}

func list(t *testing.T, c *Cluster, prefix string) []string {
	t.Helper()
	var names []string
	err := c.underLock(t.Context(), func(conn *pgx.Conn) error {
		var err error
		names, err = databases(t.Context(), conn, prefix)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestProcessesShareTemplates(t *testing.T) {
	t.Parallel()
	_, c := Server(t, pgserver.Options{})
	if err := helper(t, c, "die"); err != nil {
		t.Fatal(err)
	}
	half := list(t, c, templatePrefix)
	if len(half) != 1 || !strings.HasSuffix(half[0], buildingSuffix) {
		t.Fatalf("after a crash while building: %q, want one half-built template", half)
	}

	const processes = 4
	errs := make([]error, processes)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = helper(t, c, "build") })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, c, templatePrefix),
		[]string{strings.TrimSuffix(half[0], buildingSuffix)}; !slices.Equal(got, want) {
		t.Errorf("templates %q, want %q", got, want)
	}

	// Each clone holds the backend that built its template: if it was built once, there is one value.
	// Clones of processes that have ended are dropped when the next one opens the cluster, so only
	// this process's clones are certain to exist.
	var builders []string
	for range 2 {
		db := c.New(t, From(roleTemplate("shared", "1")))
		var n string
		if err := db.Conn(t, "pgtest_teller").QueryRow(t.Context(), "SELECT n::text FROM built").Scan(&n); err != nil {
			t.Fatal(err)
		}
		builders = append(builders, n)
	}
	if builders[0] != builders[1] {
		t.Errorf("template built by backends %q, want one", builders)
	}
}

func TestOrphansAreDropped(t *testing.T) {
	t.Parallel()
	_, c := Server(t, pgserver.Options{})
	mine := c.New(t)
	if err := helper(t, c, "build"); err != nil {
		t.Fatal(err)
	}
	if got := list(t, c, databasePrefix); len(got) != 4 {
		t.Fatalf("test databases %q, want mine and three orphans", got)
	}
	second, err := Open(t.Context(), c.adminURL)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.WithoutCancel(t.Context()))
	if got, want := list(t, c, databasePrefix), []string{mine.Name}; !slices.Equal(got, want) {
		t.Errorf("test databases %q, want %q", got, want)
	}
}

func TestStaleTemplatesAreReplaced(t *testing.T) {
	t.Parallel()
	_, c := Server(t, pgserver.Options{})
	old, other := roleTemplate("bank", "1"), roleTemplate("bank_two", "1")
	for _, tpl := range []Template{old, other} {
		c.New(t, From(tpl))
	}
	second, err := Open(t.Context(), c.adminURL)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.WithoutCancel(t.Context()))
	next := roleTemplate("bank", "2")
	if _, err := second.clone(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	want := []string{next.database(), other.database()}
	slices.Sort(want)
	if got := list(t, c, templatePrefix); !slices.Equal(got, want) {
		t.Errorf("templates %q, want %q", got, want)
	}
	// The first process still remembers the old one; it must build it anew, not fail.
	c.New(t, From(old))
}

func TestBuildTrouble(t *testing.T) {
	t.Parallel()
	_, c := Server(t, pgserver.Options{})
	boom := errors.New("boom")
	fails := Template{Name: "fails", Digest: "1", Build: func(context.Context, string) error { return boom }}
	for range 2 {
		if _, err := c.clone(t.Context(), fails); !errors.Is(err, boom) {
			t.Fatalf("clone of a template that does not build: %v, want boom", err)
		}
	}
	fails.Build = func(context.Context, string) error { return nil }
	if _, err := c.clone(t.Context(), fails); err != nil {
		t.Errorf("after Build was mended: %v", err)
	}
	for _, bad := range []Template{{}, {Name: "a b", Digest: "1"}, {Name: strings.Repeat("x", 21)}} {
		if _, err := c.clone(t.Context(), bad); err == nil {
			t.Errorf("template %+v was accepted", bad)
		}
	}
}

func TestTemplateRefusesConnections(t *testing.T) {
	t.Parallel()
	tpl := roleTemplate("closed", "1")
	db := New(t, From(tpl))
	u, err := urlFor(db.AdminURL(), tpl.database(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), u, "SELECT 1"); err == nil {
		t.Error("the template lets a login in, which could change it for all tests")
	}
}
