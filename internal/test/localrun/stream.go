package localrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/railsfile"
)

// stream is a nats-server, a process with its store in the folder of the run, and the stream on it. The
// program of the testbed has the server, and the two commands by which the stream is made and read.
type stream struct {
	process *process
	program string
	addr    string
}

// asking bounds a command that makes or reads the stream.
const asking = time.Minute

func (s *stream) start(ctx context.Context, i *installation) (err error) {
	s.program = i.Payee
	if s.addr, err = child.FreeAddr(); err != nil {
		return err
	}
	store := filepath.Join(i.Dir, "stream")
	if _, err := os.Stat(store); err == nil {
		i.say("stream: goes on with what is in %s", store)
	}
	s.process, err = i.startProcess("nats-server", s.program, nil, "nats-server", "-listen", s.addr, "-store", store)
	if err != nil {
		return err
	}
	if _, err := s.ask(ctx, "stream-make"); err != nil {
		return err
	}
	i.say("stream: %s of %s, kept in %s", railsfile.StreamName, s.url(), store)
	return nil
}

// ask runs a command of the testbed's program on the stream. It waits for a server that is starting.
func (s *stream) ask(ctx context.Context, what string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	var output, said bytes.Buffer
	command := exec.CommandContext(ctx, s.program, what, "-server", s.url(), "-stream", railsfile.StreamName)
	command.Stdout, command.Stderr = &output, &said
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", what, err, said.String())
	}
	return output.Bytes(), nil
}

func (s *stream) url() string { return "nats://" + s.addr }

func (s *stream) rails() ([]byte, error) { return railsfile.Stream(s.url()) }

func (s *stream) railType() string { return "stream" }

func (s *stream) ledgerName() string { return "stream.jsonl" }

func (s *stream) copyLedger(ctx context.Context, file string) error {
	messages, err := s.ask(ctx, "stream-read")
	if err != nil {
		return err
	}
	return os.WriteFile(file, messages, 0o644)
}

func (s *stream) count(file string) (map[string]int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	messages := make(map[string]int)
	for line := range bytes.Lines(text) {
		var message struct {
			ID string `json:"nats_msg_id"`
		}
		if err := json.Unmarshal(line, &message); err != nil {
			return nil, fmt.Errorf("reading what the stream has: %w", err)
		}
		messages[message.ID]++
	}
	return messages, nil
}

func (s *stream) says(arrived, doubled int) string {
	return fmt.Sprintf("the stream says:   has a message of %d, more than one of %d", arrived, doubled)
}

func (s *stream) verb() string { return "stored" }

func (s *stream) guide() string {
	return fmt.Sprintf("\n# The stream: each of its messages as a line.\n%s stream-read \\\n  -server %s -stream %s\n",
		nearPath(s.program), s.url(), railsfile.StreamName)
}

func (s *stream) stop() error {
	if s.process == nil {
		return nil
	}
	return s.process.stop(10 * time.Second)
}
