package console

import (
	"fmt"
	"strings"
)

// keys tries the keys that pages have of their own: j and k choose a payment of a list, / goes to the search.
func (k *walker) keys() {
	if err := k.tryKeys(); err != nil {
		k.faulty("keys", err.Error())
	}
	k.faulty("keys", k.tab.Faults()...)
}

func (k *walker) tryKeys() error {
	if _, err := k.tab.Go(k.base + "/payments"); err != nil {
		return err
	}
	if err := k.tab.Type("jjk"); err != nil {
		return err
	}
	first, err := k.tab.Chosen()
	if err != nil {
		return err
	}
	if status, err := k.tab.Enter(); err != nil || status != 200 {
		return fmt.Errorf("the Enter key on the first payment: status %d: %w", status, err)
	}
	if path, err := k.tab.Path(); err != nil || path != first || !strings.HasPrefix(path, "/payments/") {
		return fmt.Errorf("j, j, k and Enter lead to %s, the first payment is %s: %w", path, first, err)
	}
	if err := k.tab.Type("/"); err != nil {
		return err
	}
	if err := k.tab.Type(k.names["paid.id"]); err != nil {
		return err
	}
	if status, err := k.tab.Enter(); err != nil || status != 200 {
		return fmt.Errorf("/ and an id: status %d: %w", status, err)
	}
	if path, err := k.tab.Path(); err != nil || path != "/payments/"+k.names["paid"] {
		return fmt.Errorf("/ and an id lead to %s: %w", path, err)
	}
	return nil
}
