package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func enqueueCommand() *cobra.Command {
	var one oneInstruction
	var file string
	command := &cobra.Command{
		Use: "enqueue", Short: "Put one instruction into the outbox, or a file of them",
		Long: `Put one instruction into the outbox by its flags, or many by --file.

A file has one JSON object a line, with the names of the SQL function's arguments: instruction_id, participant_id,
idempotency_key, rail_type, payload, and optionally not_before, expires_at, priority, headers, send_once. A line that is no such
object, names a field twice or has an unknown field is refused before it is sent. Lines are enqueued in
transactions of at most 500. Each line has a result on standard output, in order; one that is refused has its
SQLSTATE, the others are enqueued, and the exit code is 7. The command can be repeated after any failure: the same
instruction id and key with the same content are the same instruction. A new instruction id is a new payment, also under
the old key: make both from your own order, before the first try, and repeat both.

With -o json each result is one JSON object on a line. Connects with RAILHEAD_INGEST_URL.`,
		Example: "  railhead enqueue --instruction-id INV-7 --participant-id p1 --idempotency-key INV-7 \\\n" +
			"    --rail bank --amount 10.50 --currency EUR --payload " +
			"'{\"debtor\":{\"account\":\"a\"},\"creditor\":{\"account\":\"b\"}}'\n" +
			"  railhead enqueue --file instructions.jsonl\n" +
			"  generate | railhead enqueue --file - -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				return enqueueFile(cmd, file)
			}
			in, err := one.instruction(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return withIngest(cmd.Context(), func(ingest *ingest.Ingest) error {
				var receipt payment.Receipt
				err := withinCell(cmd.Context(), func(ctx context.Context) (err error) {
					receipt, err = ingest.Enqueue(ctx, in)
					return err
				})
				if err != nil {
					return err
				}
				return writeReceipt(outputOf(cmd), in, receipt)
			})
		},
	}
	flags := command.Flags()
	one.given = flags.Changed
	flags.StringVarP(&file, "file", "f", "", "a file of JSON objects, one a line; - is standard input")
	flags.StringVar(&one.id, "instruction-id", "", "the payment's name; a retry repeats it: a new one is a new payment")
	flags.StringVar(&one.participant, "participant-id", "", "the participant to whose stream it belongs")
	flags.StringVar(&one.key, "idempotency-key", "", "one key for each payment; a retry repeats it and the id")
	flags.StringVar(&one.rail, "rail", "", "the rail, as railhead rail list names it")
	flags.StringVar(&one.payload, "payload", "", "a JSON object; @FILE reads it from a file, @- from standard input")
	flags.StringVar(&one.amount, "amount", "", "decimal, such as 10.50; becomes payload.amount")
	flags.StringVar(&one.currency, "currency", "", "ISO 4217, such as EUR; becomes payload.currency")
	flags.StringVar(&one.notBefore, "not-before", "", "earliest time of sending, such as 2026-11-21T09:00:00Z")
	flags.StringVar(&one.expires, "expires-at", "", "after this it is not sent any more")
	flags.StringVar(&one.priority, "priority", "normal", "urgent, normal or bulk")
	flags.BoolVar(&one.once, "send-once", false,
		"at most one send: it is not sent again automatically after one that may have reached the rail")
	flags.StringToStringVar(&one.headers, "header", nil, "trace context, such as traceparent=00-...")
	for _, name := range []string{"instruction-id", "participant-id", "idempotency-key", "rail", "payload", "amount",
		"currency", "not-before", "expires-at", "priority", "send-once", "header"} {
		command.MarkFlagsMutuallyExclusive("file", name)
	}
	return command
}

// oneInstruction is an instruction by flags.
type oneInstruction struct {
	id, participant, key, rail, payload, amount, currency, notBefore, expires, priority string

	once    bool
	headers map[string]string
	given   func(flag string) bool // whether the command line has the flag, maybe without a value
}

func (o oneInstruction) instruction(stdin io.Reader) (payment.Instruction, error) {
	var faults []error
	for _, flag := range []struct{ name, value string }{
		{"--instruction-id", o.id}, {"--participant-id", o.participant}, {"--idempotency-key", o.key}, {"--rail", o.rail},
	} {
		if flag.value == "" {
			faults = append(faults, fmt.Errorf("%s is missing", flag.name))
		}
	}
	if len(faults) > 0 {
		return payment.Instruction{}, usage(errors.Join(append(faults, errors.New("for many instructions use --file"))...))
	}
	in := payment.Instruction{
		InstructionID: o.id, ParticipantID: o.participant, IdempotencyKey: o.key, RailType: o.rail, Headers: o.headers,
		SendOnce: o.once,
	}
	var err error
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	in.Payload, err = o.payloadJSON(stdin)
	note(err)
	for _, flag := range []struct {
		name, text string
		into       *time.Time
	}{{"not-before", o.notBefore, &in.NotBefore}, {"expires-at", o.expires, &in.ExpiresAt}} {
		if flag.text != "" || o.given(flag.name) {
			*flag.into, err = parseTime("--"+flag.name, flag.text)
			note(err)
		}
	}
	in.Priority, err = parsePriority(o.priority)
	note(err)
	return in, usage(errors.Join(faults...))
}

// payloadBytesMax bounds what is read of a payload; the cell's own bound is lower.
const payloadBytesMax = 2 << 20

// payloadJSON reads the payload and adds amount and currency to it. A field of the
// payload must not be given by a flag too.
func (o oneInstruction) payloadJSON(stdin io.Reader) ([]byte, error) {
	text := []byte(o.payload)
	if name, isFile := strings.CutPrefix(o.payload, "@"); isFile {
		from := stdin
		if name != "-" {
			opened, err := os.Open(name)
			if err != nil {
				return nil, withCode(exitNotFound, fmt.Errorf("--payload: %w", err))
			}
			defer opened.Close()
			from = opened
		}
		var err error
		if text, err = io.ReadAll(io.LimitReader(from, payloadBytesMax)); err != nil {
			return nil, fmt.Errorf("--payload: %w", err)
		}
	}
	if len(text) == 0 {
		text = []byte("{}")
	}
	if err := payment.CheckJSON(text); err != nil {
		return nil, fmt.Errorf("--payload: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, errors.New("--payload: must be a JSON object")
	}
	for _, flag := range []struct{ name, value string }{{"amount", o.amount}, {"currency", o.currency}} {
		if flag.value == "" {
			continue
		}
		if _, there := fields[flag.name]; there {
			return nil, fmt.Errorf("--%s: the payload names %s too", flag.name, flag.name)
		}
		quoted, err := json.Marshal(flag.value)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag.name, err)
		}
		fields[flag.name] = quoted
	}
	return json.Marshal(fields)
}

// parseTime reads a moment that was given. The empty text, and the zero time that some clients write, are those of a
// variable without a value: taken for "none" they would take the caller's deadline away.
func parseTime(name, text string) (time.Time, error) {
	moment, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || moment.IsZero() {
		return time.Time{}, fmt.Errorf("%s must be a timestamp with a zone, such as 2026-11-21T09:00:00Z", name)
	}
	return moment, nil
}

func parsePriority(word string) (payment.Priority, error) {
	switch word {
	case "normal", "1":
		return payment.PriorityNormal, nil
	case "urgent", "0":
		return payment.PriorityUrgent, nil
	case "bulk", "2":
		return payment.PriorityBulk, nil
	default:
		return 0, fmt.Errorf("--priority is %q: use urgent, normal or bulk", word)
	}
}

func writeReceipt(o output, in payment.Instruction, receipt payment.Receipt) error {
	entry := lineResult(0, in, outbox.ReceiptOrFault{Receipt: receipt})
	if o.json {
		return o.document(entry)
	}
	return o.text("%s\n", entry.text())
}
