package ha

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// archiveLine returns the value of a setting of step 3 of the page.
func archiveLine(t *testing.T, name string) string {
	t.Helper()
	for _, b := range chapterOf(t) {
		if _, value, found := strings.Cut(b.text, " "+name+": "); b.step == "3" && found {
			value, _, _ = strings.Cut(value, "\n")
			return value
		}
	}
	t.Fatalf("step 3 has no %s", name)
	return ""
}

func chapterOf(t *testing.T) []block {
	t.Helper()
	blocks, err := readPage("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

// TestArchive runs the page's archive_command as three hosts do that have the same segments: each archives all of
// them, so that those which a lost primary had not archived come from a standby.
func TestArchive(t *testing.T) {
	t.Parallel()
	// With "on" a standby marks what it receives as archived, and its promotion does not archive it either.
	if mode := archiveLine(t, "archive_mode"); mode != "always" {
		t.Errorf("archive_mode is %s: segments that a lost primary has not archived are archived by none", mode)
	}
	command := archiveLine(t, "archive_command")
	backup := t.TempDir()
	put := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hosts := map[string]string{"db1": t.TempDir(), "db2": t.TempDir(), "db3": t.TempDir()}
	put(hosts["db2"], "standby.signal", "")
	put(hosts["db3"], "standby.signal", "")
	archive := func(node, file string) error {
		run := exec.CommandContext(t.Context(), "sh", "-c",
			strings.NewReplacer("%p", file, "%f", file, "$BACKUP", backup, "$NODE", node).Replace(command))
		run.Dir = hosts[node]
		return run.Run()
	}
	want := func(file, text string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(backup, "wal", file)); err != nil || string(got) != text {
			t.Errorf("%s has %.20q, %v, want %.20q", file, got, err, text)
		}
	}

	for node, dir := range hosts {
		put(dir, "0A", "a")
		if archive(node, "0A") == nil {
			t.Errorf("%s has archived while the storage is away", node)
		}
	}
	if err := os.Mkdir(filepath.Join(backup, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The primary is lost, and its successor was a standby.
	for _, node := range []string{"db2", "db3", "db2"} {
		if err := archive(node, "0A"); err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	want("0A", "a")

	// All archive the same at the same moment.
	for n := range 20 {
		file, text := fmt.Sprintf("%02X", 32+n), strings.Repeat(fmt.Sprint(n), 1<<16)
		var all sync.WaitGroup
		for node, dir := range hosts {
			put(dir, file, text)
			all.Go(func() {
				if err := archive(node, file); err != nil {
					t.Errorf("%s, %s with the others: %v", node, file, err)
				}
			})
		}
		all.Wait()
		want(file, text)
	}
	if left, err := filepath.Glob(filepath.Join(backup, "wal", "*.db?")); err != nil || left != nil {
		t.Errorf("left are %q, %v", left, err)
	}

	// What differs is never replaced. A standby goes on, and a primary waits for an operator.
	put(hosts["db2"], "0B", "whole")
	put(hosts["db3"], "0B", "who")
	put(hosts["db1"], "0B", "another")
	for _, node := range []string{"db2", "db3"} {
		if err := archive(node, "0B"); err != nil {
			t.Errorf("%s: %v", node, err)
		}
	}
	if archive("db1", "0B") == nil {
		t.Error("a primary takes another file for its own")
	}
	want("0B", "whole")
}

// TestGapInTheArchive runs the page's check on archives with and without a gap.
func TestGapInTheArchive(t *testing.T) {
	t.Parallel()
	var check string
	for _, b := range chapterOf(t) {
		if b.step == "7" && strings.Contains(b.text, "the archive lacks") {
			check = b.text
		}
	}
	const before = "000000010000000000000001 0000000100000000000000FE 0000000100000000000000FF 000000010000000100000000 "
	const history = "1\t1/1000090\tno recovery target specified\n"
	for name, c := range map[string]struct {
		files, history, lacks string
	}{
		"one timeline": {before + "000000010000000100000001", "", ""},
		"a gap":        {before + "000000010000000100000002 000000010000000100000001.partial", "", "000000010000000100000001"},
		"a failover":   {before + "000000010000000100000001.partial 000000020000000100000001", history, ""},
		"what the lost primary had not archived": {"0000000100000000000000FE 000000020000000100000001 000000020000000100000002",
			history, "0000000100000000000000FF 000000010000000100000000"},
		"a gap that a branch which was left covers": {before + "000000010000000100000001 000000010000000100000002 " +
			"000000020000000100000001 000000020000000100000003", history, "000000020000000100000002"},
		"two failovers": {before + "000000020000000100000001 000000030000000100000002 000000030000000100000003",
			history + "\n2\t1/2000000\tno recovery target specified\n", ""},
	} {
		backup := t.TempDir()
		for _, dir := range []string{"wal", "base"} {
			if err := os.Mkdir(filepath.Join(backup, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		put := func(file, text string) {
			if err := os.WriteFile(filepath.Join(backup, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put("base/backup_label", "START WAL LOCATION: 0/FE000028 (file 0000000100000000000000FE)\nSTART TIMELINE: 1\n")
		files := strings.Fields(c.files)
		for _, file := range files {
			put("wal/"+file, "")
		}
		if c.history != "" {
			put("wal/"+files[len(files)-1][:8]+".history", c.history)
		}
		run := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", check)
		run.Env = append(os.Environ(), "BACKUP="+backup)
		var output bytes.Buffer
		run.Stdout = &output
		err := run.Run()
		var lacks []string
		for line := range strings.Lines(output.String()) {
			if file, found := strings.CutPrefix(strings.TrimSpace(line), "the archive lacks "); found {
				lacks = append(lacks, file)
			}
		}
		if got := strings.Join(lacks, " "); got != c.lacks || (err == nil) != (c.lacks == "") {
			t.Errorf("%s: it lacks %q, %v, want %q", name, got, err, c.lacks)
		}
	}
}
