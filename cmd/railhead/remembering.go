package main

import (
	"errors"
	"time"

	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
)

// remembered is a service with a file in RAILHEAD_STATE_DIR.
type remembered interface {
	service.Service
	Unsaved() time.Duration
}

// remembering returns a service that says in its readiness and in metrics if its file can't be written. It goes on
// without: answers of rails must still be recorded.
func remembering(one remembered, component string, set *metrics.Set) service.Service {
	set.Unsaved(component, one.Unsaved)
	return withMemory{one}
}

type withMemory struct{ remembered }

func (w withMemory) Ready() error {
	if err := w.remembered.Ready(); err != nil {
		return err
	}
	if w.Unsaved() > 0 {
		return stillReady(errors.New("its memory of the server can't be written to RAILHEAD_STATE_DIR: " +
			"a snapshot that is restored while it is down would not be noticed"))
	}
	return nil
}
