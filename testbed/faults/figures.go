package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// These lines enclose the figures of a page, which are generated and never typed.
const (
	figuresBegin = "<!-- figures: make figures -->"
	figuresEnd   = "<!-- end of the figures -->"
)

// IntoPage writes the figures of the evidence below root into a page, between its two
// marks.
func IntoPage(root, page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), figuresBegin)
	_, after, closed := strings.Cut(rest, figuresEnd)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for figures: the lines %q and %q", page, figuresBegin, figuresEnd)
	}
	var figures strings.Builder
	if err := WriteMatrix(filepath.Join(root, "faults", "runs.jsonl"), &figures); err != nil {
		return err
	}
	nemesis, err := lastOf[NemesisReport](filepath.Join(root, "nemesis", "runs.jsonl"))
	if err != nil {
		return err
	}
	recovery, err := lastOf[RecoveryReport](filepath.Join(root, "recovery", "runs.jsonl"))
	if err != nil {
		return err
	}
	if nemesis != nil {
		fmt.Fprintf(&figures, "\nThe last nemesis, with %d relayers and %d reapers:\n\n```text\n%s\n```\n",
			nemesis.Options.Relayers, nemesis.Options.Reapers, nemesis)
	}
	if recovery != nil {
		fmt.Fprintf(&figures, "\nFrom SIGKILL of the only relayer to the next decision on its payments, with %s:\n\n"+
			"```text\n%s\n```\n",
			recovery.Settings, recovery)
	}
	return os.WriteFile(page, []byte(before+figuresBegin+"\n\n"+figures.String()+"\n"+figuresEnd+after), 0o644)
}

// lastOf returns the last line of a file that can be parsed, and nil if there is no file.
func lastOf[T any](path string) (*T, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var last *T
	in := bufio.NewScanner(file)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		one := new(T)
		if json.Unmarshal(in.Bytes(), one) == nil {
			last = one
		}
	}
	return last, in.Err()
}
