package railconfig

import (
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/kafka"
	"github.com/railhead-pay/railhead/rails/nats"
)

// Callbacks returns a reader for each rail that has a callback section. It resolves the secrets.
// The file's profile classifies the codes.
func (f File) Callbacks(getenv func(string) string) (map[string]*callback.Reader, error) {
	readers := make(map[string]*callback.Reader)
	var all []error
	for _, rail := range f.Rails {
		if rail.Callback == nil {
			continue
		}
		table, err := rail.Profile.Codes.BodyTable()
		var reader *callback.Reader
		if err == nil {
			reader, err = callback.Open(*rail.Callback, table, getenv, time.Now)
		}
		if err != nil {
			all = append(all, fmt.Errorf("callbacks of rail %s: %w", rail.RailType, err))
			continue
		}
		readers[rail.RailType] = reader
	}
	return readers, errors.Join(all...)
}

// CallbackSources returns a source for each rail whose callbacks are messages of a stream or records of a topic. It
// resolves the secrets and connects to nothing.
func (f File) CallbackSources(getenv func(string) string) (map[string]callback.Source, error) {
	sources := make(map[string]callback.Source)
	var all []error
	for _, rail := range f.Rails {
		var source callback.Source
		var err error
		switch {
		case rail.NATS != nil && rail.NATS.Replies != nil:
			source, err = nats.OpenReplies(*rail.NATS, getenv)
		case rail.Kafka != nil && rail.Kafka.Replies != nil:
			source, err = kafka.OpenReplies(*rail.Kafka, getenv)
		default:
			continue
		}
		if err != nil {
			all = append(all, fmt.Errorf("callbacks of rail %s: %s: %w", rail.RailType, rail.Adapter, err))
			continue
		}
		sources[rail.RailType] = source
	}
	return sources, errors.Join(all...)
}

// repliesAt names where the rail's callbacks are kept; no other rail of the file may have one of the places.
func (c *RailConfig) repliesAt() []string {
	switch {
	case c.NATS != nil && c.NATS.Replies != nil:
		return []string{c.NATS.RepliesAt()}
	case c.Kafka != nil:
		return c.Kafka.RepliesAt()
	default:
		return nil
	}
}
