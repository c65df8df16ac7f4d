package localrun

import "context"

// payee is what payments are sent to, and the witness of what has arrived there.
type payee interface {
	// start starts it and waits until payments can be sent.
	start(context.Context, *installation) error
	// rails returns the rails file that leads to it.
	rails() ([]byte, error)
	railType() string
	// copyLedger writes to a file what has arrived: one line of JSON each. [payee.ledgerName] is its name,
	// and count returns how often each rail key is there.
	copyLedger(ctx context.Context, file string) error
	ledgerName() string
	count(file string) (map[string]int, error)
	// says is a sentence on how many payments arrived and how many of them more than once, and verb the
	// word for the former.
	says(arrived, doubled int) string
	verb() string
	// guide returns lines to copy, each below a comment.
	guide() string
	// stop ends it, if it was started.
	stop() error
}

func newPayee(o Options) payee {
	switch o.Rail {
	case NATS:
		return &stream{}
	case Kafka:
		return &topic{}
	default:
		return &bank{}
	}
}

func (i *installation) startPayee(ctx context.Context) error { return i.payee.start(ctx, i) }
