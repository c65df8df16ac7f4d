package simrail

import (
	"errors"
	"net"

	"github.com/railhead-pay/railhead/railsim"
)

// Served is a simulated bank in this process, on a free port of this machine.
type Served struct {
	*railsim.Bank
	URL    string
	served chan error
}

// Serve starts a bank.
func Serve(config railsim.Config) (*Served, error) {
	bank, err := railsim.New(config)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, bank.Close())
	}
	s := &Served{bank, "http://" + listener.Addr().String(), make(chan error, 1)}
	go func() { s.served <- bank.Serve(listener) }()
	return s, nil
}

// Close ends the bank.
func (s *Served) Close() error {
	err := s.Bank.Close()
	return errors.Join(err, <-s.served)
}
