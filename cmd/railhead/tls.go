package main

import (
	"errors"
	"log/slog"

	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
)

// tlsOf reads the files of TLS of a listener, whose times are metrics; nil: it has none.
func tlsOf(listener string, files service.TLSFiles, set *metrics.Set, log *slog.Logger) (*service.TLS, error) {
	certificates, err := service.OpenTLS(files, log)
	if err == nil && certificates != nil {
		set.TLS(listener, certificates.Files)
	}
	return certificates, err
}

// alsoOf adds what is at fault with the files of TLS to why a component is not ready; nil: it is.
func alsoOf(certificates *service.TLS, unready error) error {
	if unready == nil {
		return stillReady(certificates.Err())
	}
	return errors.Join(unready, certificates.Err())
}

// errStillReady: a component works, and something of it needs an operator.
var errStillReady = errors.New("it is ready all the same")

// stillReady returns what is at fault with a component that works; nil: nothing is.
func stillReady(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, errStillReady)
}
