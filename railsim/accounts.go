package railsim

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Account is one account as GET /accounts shows it and as an accounts file opens it.
type Account struct {
	// Number identifies the account together with Currency; 1 to 64 characters.
	Number string `json:"account"`
	// Currency is three capital letters.
	Currency string `json:"currency"`
	// Balance is a decimal string and may be negative.
	Balance string `json:"balance"`
	// Overdraft is how far below zero the account may go, as a decimal string; absent means without limit.
	Overdraft *string `json:"overdraft,omitempty"`
	// Status is OPEN (also when empty), CLOSED, BLOCKED or UNKNOWN; the latter three refuse.
	Status string `json:"status,omitempty"`
}

// AccountsFile is the content of an accounts file, in JSON.
type AccountsFile struct {
	// Strict refuses accounts that are not listed, with AC01, instead of opening them at balance zero.
	Strict   bool      `json:"strict"`
	Accounts []Account `json:"accounts"`
}

// ParseAccounts reads an accounts file. Amounts and states are checked by New.
func ParseAccounts(data []byte) (AccountsFile, error) {
	var file AccountsFile
	if err := json.Unmarshal(data, &file); err != nil {
		return AccountsFile{}, fmt.Errorf("parse accounts: %w", err)
	}
	return file, nil
}

// refusal is a business refusal of the bank.
type refusal struct{ code, message string }

// reserved returns the refusal of the account numbers that refuse by name, in every currency.
func reserved(number string) (refusal, bool) {
	switch number {
	case "CLOSED":
		return refusal{"AC04", "account closed"}, true
	case "BLOCKED":
		return refusal{"AC06", "account blocked"}, true
	case "UNKNOWN":
		return refusal{"AC01", "account number unknown"}, true
	}
	return refusal{}, false
}

type accountID struct{ number, currency string }

type account struct {
	balance *big.Int
	floor   *big.Int // nil: no limit
	status  string
}

// book holds the balances. It is not safe for concurrent use.
type book struct {
	strict   bool
	max      int
	accounts map[accountID]*account
}

func newBook(file AccountsFile, max int) (*book, error) {
	b := &book{strict: file.Strict, max: max, accounts: map[accountID]*account{}}
	if len(file.Accounts) > max {
		return nil, fmt.Errorf("%d accounts, at most %d", len(file.Accounts), max)
	}
	for i, a := range file.Accounts {
		if err := b.open(a); err != nil {
			return nil, fmt.Errorf("account %d (%q): %w", i+1, a.Number, err)
		}
	}
	return b, nil
}

func (b *book) open(a Account) error {
	if a.Number == "" || len(a.Number) > maxAccountNumber {
		return fmt.Errorf("number is not of 1 to %d characters", maxAccountNumber)
	}
	if err := parseCurrency(a.Currency); err != nil {
		return err
	}
	id := accountID{a.Number, a.Currency}
	if b.accounts[id] != nil {
		return fmt.Errorf("listed twice in %s", a.Currency)
	}
	switch a.Status {
	case "", "OPEN", "CLOSED", "BLOCKED", "UNKNOWN":
	default:
		return fmt.Errorf("status %q is not OPEN, CLOSED, BLOCKED or UNKNOWN", a.Status)
	}
	balance, err := parseMoney(a.Balance, a.Currency)
	if err != nil {
		return fmt.Errorf("balance: %w", err)
	}
	opened := &account{balance: balance, status: a.Status}
	if a.Overdraft != nil {
		over, err := parseMoney(*a.Overdraft, a.Currency)
		if err != nil {
			return fmt.Errorf("overdraft: %w", err)
		}
		opened.floor = over.Neg(over)
	}
	b.accounts[id] = opened
	return nil
}

// judge returns the bank's refusal of a payment, if any. It changes nothing.
func (b *book) judge(p *payment) (refusal, bool) {
	if r, no := b.usable(p.creditor, p.currency); no {
		return r, true
	}
	if r, no := b.usable(p.debtor, p.currency); no {
		return r, true
	}
	if p.debtor == "POOR" {
		return refusal{"AM04", "insufficient funds"}, true
	}
	from := b.accounts[accountID{p.debtor, p.currency}]
	if from == nil || from.floor == nil {
		return refusal{}, false
	}
	if new(big.Int).Sub(from.balance, p.minor).Cmp(from.floor) < 0 {
		return refusal{"AM04", "insufficient funds"}, true
	}
	return refusal{}, false
}

func (b *book) usable(number, currency string) (refusal, bool) {
	if r, no := reserved(number); no {
		return r, true
	}
	a := b.accounts[accountID{number, currency}]
	if a == nil {
		return refusal{"AC01", "account number unknown"}, b.strict
	}
	return reserved(a.status)
}

// room reports whether a payment's accounts exist or can still be opened.
func (b *book) room() bool { return len(b.accounts)+2 <= b.max }

// move takes the amount from the debtor and gives it to the creditor, and opens what does not exist.
func (b *book) move(debtor, creditor, currency string, minor *big.Int) {
	from, to := b.touch(debtor, currency), b.touch(creditor, currency)
	from.balance.Sub(from.balance, minor)
	to.balance.Add(to.balance, minor)
}

func (b *book) touch(number, currency string) *account {
	id := accountID{number, currency}
	a := b.accounts[id]
	if a == nil {
		a = &account{balance: new(big.Int)}
		b.accounts[id] = a
	}
	return a
}

// list copies all accounts, sorted by number and currency.
func (b *book) list() []Account {
	out := make([]Account, 0, len(b.accounts))
	for id, a := range b.accounts {
		shown := Account{
			Number:   id.number,
			Currency: id.currency,
			Balance:  formatAmount(a.balance, id.currency),
			Status:   a.status,
		}
		if a.status == "" {
			shown.Status = "OPEN"
		}
		if a.floor != nil {
			shown.Overdraft = new(formatAmount(new(big.Int).Neg(a.floor), id.currency))
		}
		out = append(out, shown)
	}
	slices.SortFunc(out, func(x, y Account) int {
		if c := strings.Compare(x.Number, y.Number); c != 0 {
			return c
		}
		return strings.Compare(x.Currency, y.Currency)
	})
	return out
}
