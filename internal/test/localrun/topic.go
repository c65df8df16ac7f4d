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

// topic is franz-go's kfake, a fake of Kafka: a process with its log in the folder of the run, and the topic that it
// makes. Whatever is printed about it names it a fake. The program of the testbed has it, and the command that reads
// it.
type topic struct {
	process *process
	program string
	addr    string
}

func (t *topic) start(ctx context.Context, i *installation) (err error) {
	t.program = i.Payee
	if t.addr, err = child.FreeAddr(); err != nil {
		return err
	}
	store := filepath.Join(i.Dir, "topic")
	if _, err := os.Stat(store); err == nil {
		i.say("kafka=fake: goes on with what is in %s", store)
	}
	t.process, err = i.startProcess("kafka-fake", t.program, nil, "kafka-fake", "-listen", t.addr, "-advertise", t.addr,
		"-store", store)
	if err != nil {
		return err
	}
	if _, err := t.read(ctx); err != nil {
		return err
	}
	i.say("kafka=fake: topic %s of franz-go's kfake at %s, kept in %s", railsfile.TopicName, t.url(), store)
	return nil
}

// read returns the records of the topic, each as a line. It waits for a fake that is starting.
func (t *topic) read(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	var output, said bytes.Buffer
	command := exec.CommandContext(ctx, t.program, "topic-read", "-server", t.addr)
	command.Stdout, command.Stderr = &output, &said
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("reading the fake of Kafka: %w\n%s", err, said.String())
	}
	return output.Bytes(), nil
}

func (t *topic) url() string { return "kafka://" + t.addr }

func (t *topic) rails() ([]byte, error) { return railsfile.Topic(t.url()) }

func (t *topic) railType() string { return "topic" }

func (t *topic) ledgerName() string { return "topic-of-a-fake.jsonl" }

func (t *topic) copyLedger(ctx context.Context, file string) error {
	records, err := t.read(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(file, records, 0o644)
}

func (t *topic) count(file string) (map[string]int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	records := make(map[string]int)
	for line := range bytes.Lines(text) {
		var record struct {
			RailKey string `json:"rail_key"`
		}
		if err := json.Unmarshal(line, &record); err != nil {
			return nil, fmt.Errorf("reading what the fake of Kafka has: %w", err)
		}
		records[record.RailKey]++
	}
	return records, nil
}

func (t *topic) says(arrived, doubled int) string {
	return fmt.Sprintf("the fake of Kafka says: has a record of %d, more than one of %d", arrived, doubled)
}

func (t *topic) verb() string { return "kafka=fake stored" }

func (t *topic) guide() string {
	return fmt.Sprintf("\n# The topic of the fake of Kafka: each of its records as a line.\n%s topic-read -server %s\n",
		nearPath(t.program), t.addr)
}

func (t *topic) stop() error {
	if t.process == nil {
		return nil
	}
	return t.process.stop(10 * time.Second)
}
