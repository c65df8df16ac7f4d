package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeInstall creates a folder that looks like an installation of the given version.
func fakeInstall(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version)
	for _, program := range []string{"postgres", "initdb", "pg_ctl", "psql"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	b, err := Find(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", b)
	if b.Major < MinMajor || !filepath.IsAbs(b.Path("postgres")) || b.Source == "" {
		t.Errorf("found %+v", b)
	}
	if _, err := Find(t.Context(), b.Major); err != nil {
		t.Errorf("version %d, which is there: %v", b.Major, err)
	}
	_, err = Find(t.Context(), 97)
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("version 97: %v, want ErrNotFound", err)
	}
	for _, part := range []string{"wanted version 97", fmt.Sprintf("version %d, wanted 97", b.Major),
		"scripts/install-postgres.sh 97", EnvBin} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

func TestFindInNamedFolder(t *testing.T) {
	root := tempRoot(t)
	t.Setenv(EnvMajor, "") // the test run may ask for a version
	t.Setenv(EnvBin, fakeInstall(t, filepath.Join(root, "a"), "16.3 (Homebrew)"))
	b, err := Find(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if b.Major != 16 || b.Version != "16.3 (Homebrew)" || b.Source != EnvBin ||
		!slices.Equal(b.Missing, []string{"pg_basebackup", "pgbench"}) {
		t.Errorf("found %+v", b)
	}
	// The named folder is the only one: a wrong one must not be replaced silently by another.
	for _, bad := range []string{
		fakeInstall(t, filepath.Join(root, "old"), "14.9"),
		fakeInstall(t, filepath.Join(root, "odd"), "devel"),
		filepath.Join(root, "absent"),
	} {
		t.Setenv(EnvBin, bad)
		if b, err := Find(t.Context(), 0); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: found %+v, error %v", bad, b, err)
		}
	}
}

func TestFindDownload(t *testing.T) {
	root := tempRoot(t)
	t.Setenv(EnvCache, root)
	fakeInstall(t, filepath.Join(root, "96", "bin"), "96.1")
	b, err := Find(t.Context(), 96)
	if err != nil {
		t.Fatal(err)
	}
	if b.Source != "download" {
		t.Errorf("found %+v", b)
	}
	t.Setenv(EnvMajor, "96")
	if b, err = Find(t.Context(), 0); err != nil || b.Major != 96 {
		t.Errorf("with %s=96 found %+v, error %v", EnvMajor, b, err)
	}
	for _, bad := range []string{"14", "new", "15.2"} {
		t.Setenv(EnvMajor, bad)
		if _, err := Find(t.Context(), 0); err == nil || !strings.Contains(err.Error(), EnvMajor) {
			t.Errorf("%s=%s: %v", EnvMajor, bad, err)
		}
	}
}

func TestFindSkipsWhatTheServerCannotRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("the server runs as this very account")
		return
	}
	private := filepath.Join(tempRoot(t), "root-only")
	t.Setenv(EnvBin, fakeInstall(t, filepath.Join(private, "bin"), "16.3"))
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), 0); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "can't run postgres") {
		t.Errorf("programs in a folder of root alone: %v", err)
	}
}
