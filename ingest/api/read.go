package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// readInstruction parses one instruction strictly. It refuses a name that is unknown, repeated, or
// in other case, and the problem quotes no value. The key is a field only in a batch.
func readInstruction(text []byte, inBatch bool) (outbox.Entrusted, *Problem) {
	fields, problem := readObject(text)
	if problem != nil {
		if problem.is(kindTooLarge) { // no other field has a number that is long
			problem.Code, problem.Field, problem.Rule = outbox.StateTooLarge, "payload", "SIZE"
		}
		return outbox.Entrusted{}, problem
	}
	var in outbox.Entrusted
	for name, value := range fields {
		switch name {
		case "instruction_id":
			problem = readText(name, value, &in.InstructionID)
		case "participant_id":
			problem = readText(name, value, &in.ParticipantID)
		case "rail_type":
			problem = readText(name, value, &in.RailType)
		case "on_behalf_of":
			problem = readText(name, value, &in.OnBehalfOf)
		case "payload":
			in.Payload = value
		case "not_before":
			problem = readMoment(name, value, &in.NotBefore)
		case "expires_at":
			problem = readMoment(name, value, &in.ExpiresAt)
		case "priority":
			problem = readPriority(value, &in.Priority)
		case "send_once":
			problem = readFlag(name, value, &in.SendOnce)
		case "idempotency_key":
			if inBatch {
				problem = readText(name, value, &in.IdempotencyKey)
				break
			}
			fallthrough
		default:
			problem = kindInvalid.of(bounded(name), "UNKNOWN_FIELD", "There is no such field.")
		}
		if problem != nil {
			return outbox.Entrusted{}, problem
		}
	}
	return in, nil
}

// readObject parses the fields of one JSON object, each once.
func readObject(text []byte) (map[string]json.RawMessage, *Problem) {
	err := payment.CheckJSON(text)
	if errors.Is(err, payment.ErrLongNumbers) {
		return nil, kindTooLarge.saying("A number is too long when it is written without an exponent, as it would be stored.")
	}
	if err != nil {
		return nil, kindBadRequest.saying("The body is not one JSON object that names each field once.")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, kindBadRequest.saying("The body is not a JSON object.")
	}
	return fields, nil
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

func readText(name string, value json.RawMessage, into *string) *Problem {
	return readAs(name, value, into, "a string")
}

func readFlag(name string, value json.RawMessage, into *bool) *Problem {
	return readAs(name, value, into, "true or false")
}

// readAs parses a value into the given variable; null leaves the variable as it is.
func readAs(name string, value json.RawMessage, into any, kind string) *Problem {
	if isNull(value) {
		return nil
	}
	if err := json.Unmarshal(value, into); err != nil {
		return kindInvalid.of(name, "FORM", name+" must be "+kind+".")
	}
	return nil
}

func readMoment(name string, value json.RawMessage, into *time.Time) *Problem {
	var text string
	if problem := readText(name, value, &text); problem != nil || isNull(value) {
		return problem
	}
	moment, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return kindInvalid.of(name, "MOMENT",
			name+" must be a moment with its zone, as RFC 3339 has it, such as 2026-11-21T09:00:00Z.")
	}
	if moment.IsZero() {
		return kindInvalid.of(name, "MOMENT",
			name+" is the beginning of the year 1, as of a variable without a value: leave it out, or give a moment.")
	}
	*into = moment
	return nil
}

func readPriority(value json.RawMessage, into *payment.Priority) *Problem {
	if isNull(value) {
		return nil
	}
	var number int
	err := json.Unmarshal(value, &number)
	if err == nil {
		*into, err = payment.PriorityOf(number)
	}
	if err != nil {
		return kindInvalid.of("priority", "RANGE", "priority must be 0 (urgent), 1 (normal) or 2 (bulk).")
	}
	return nil
}

// readReason parses the body of a cancellation.
func readReason(text []byte) (string, *Problem) {
	fields, problem := readObject(text)
	if problem != nil {
		return "", problem
	}
	reason := ""
	for name, value := range fields {
		if name != "reason" {
			return "", kindInvalid.of(bounded(name), "UNKNOWN_FIELD", "There is no such field.")
		}
		if problem := readText(name, value, &reason); problem != nil {
			return "", problem
		}
	}
	if reason == "" || len(reason) > 500 {
		return "", kindInvalid.of("reason", "FORM", "reason must be 1 to 500 bytes: it is kept with the cancellation.")
	}
	return reason, nil
}

// keyOf parses the header Idempotency-Key: as it is, or as a string of structured fields (RFC
// 9651), which is the same key.
func keyOf(values []string) (string, *Problem) {
	if len(values) != 1 || values[0] == "" {
		return "", kindKeyMissing.saying(
			fmt.Sprintf("The header is present %d times: a call has one key, and a retry repeats it.", len(values)))
	}
	key := values[0]
	if len(key) > 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	return key, nil
}
