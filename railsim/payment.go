package railsim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// state is the state of a payment in the bank.
type state int

const (
	stateNew      state = iota // being decided: the key is in flight
	stateAccepted              // provisional mode: on its way
	stateExecuted
	stateRefused
)

func (s state) final() bool { return s == stateExecuted || s == stateRefused }

// payment is one payment in memory: its content never changes after begin, the rest is guarded by Bank.mu.
type payment struct {
	key, reference   string
	amount, currency string
	debtor, creditor string
	bodySHA256       string
	minor            *big.Int

	state         state
	provisional   bool // the first answer was 202 ACCEPTED
	id            string
	code, message string
	answered      time.Time // when the first record was made: the key window runs from here
	decided       time.Time // when the final record was made
	olderOfKey    *payment  // what inquiry by key knew before; nil once this one is final
	olderOfRef    *payment  // likewise by reference
}

// order is the body of POST /payments. Fields that are not named here are allowed and ignored; the digest covers them.
type order struct {
	Reference string `json:"reference"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
	Debtor    party  `json:"debtor"`
	Creditor  party  `json:"creditor"`
}

type party struct {
	Account string `json:"account"`
}

// parseOrder checks a request body and returns the payment that it asks for, with every error at once.
func parseOrder(key string, body []byte) (*payment, error) {
	var o order
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	var errs []error
	if o.Reference == "" || len(o.Reference) > maxReference {
		errs = append(errs, fmt.Errorf("reference is not of 1 to %d bytes", maxReference))
	}
	if len(o.Debtor.Account) == 0 || len(o.Debtor.Account) > maxAccountNumber {
		errs = append(errs, fmt.Errorf("debtor account is not of 1 to %d bytes", maxAccountNumber))
	}
	if len(o.Creditor.Account) == 0 || len(o.Creditor.Account) > maxAccountNumber {
		errs = append(errs, fmt.Errorf("creditor account is not of 1 to %d bytes", maxAccountNumber))
	}
	errs = append(errs, parseCurrency(o.Currency))
	minor, err := parseAmount(o.Amount, o.Currency)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return &payment{
		key:        key,
		reference:  o.Reference,
		amount:     formatAmount(minor, o.Currency),
		currency:   o.Currency,
		debtor:     o.Debtor.Account,
		creditor:   o.Creditor.Account,
		bodySHA256: hex.EncodeToString(sum[:]),
		minor:      minor,
	}, nil
}

// paymentOf rebuilds from its record the payment as it was before the record was applied.
func paymentOf(r Record) (*payment, error) {
	minor, err := parseAmount(r.Amount, r.Currency)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", r.ID, err)
	}
	if parseID(r.ID) == 0 {
		return nil, fmt.Errorf("id %q is not one of this bank", r.ID)
	}
	return &payment{
		key:        r.Key,
		reference:  r.Reference,
		amount:     r.Amount,
		currency:   r.Currency,
		debtor:     r.Debtor,
		creditor:   r.Creditor,
		bodySHA256: r.BodySHA256,
		minor:      minor,
	}, nil
}

// record returns a record of this kind about the payment. The caller sets Seq and ID.
func (p *payment) record(kind Kind, why refusal, at time.Time) Record {
	return Record{
		Kind:       kind,
		ID:         p.id,
		Key:        p.key,
		Reference:  p.reference,
		Amount:     p.amount,
		Currency:   p.currency,
		Debtor:     p.debtor,
		Creditor:   p.creditor,
		Code:       why.code,
		Message:    why.message,
		Time:       at.UTC(),
		BodySHA256: p.bodySHA256,
	}
}

const idPrefix = "RS"

func formatID(n int64) string { return fmt.Sprintf("%s%012d", idPrefix, n) }

// parseID returns the number in a bank id, or 0 if id is not one.
func parseID(id string) int64 {
	digits, ok := strings.CutPrefix(id, idPrefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 {
		return 0
	}
	return n
}
