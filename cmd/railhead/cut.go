package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// Lists that are cut, and lists in which nothing can be. What is read by a program has nothing about either: standard
// error says it.

// sayCut says on standard error that a list may lack some, and how they are had.
func sayCut(cmd *cobra.Command, listed int, more string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "railhead: %d are listed, and there may be more: %s\n", listed, more)
}

// moreLetters is how more dead letters are had than a list of so many.
func moreLetters(limit int) string {
	if limit < reader.LettersMax {
		return "--limit"
	}
	return "narrow the list by its filters"
}

// sureOfRail refuses the name of a rail that this cell never had, for a list that is empty: a wrong name would look
// like good news. Rails are never removed from a cell.
func sureOfRail(cmd *cobra.Command, r *reader.Reader, rail string) error {
	if rail == "" {
		return nil
	}
	_, err := r.RailProfiles(cmd.Context(), reader.ProfileQuery{RailType: rail})
	if errors.Is(err, outbox.ErrNotFound) {
		return withCode(exitNotFound, fmt.Errorf("there is no rail %q, and nothing of it to list: railhead rail list has "+
			"the rails of this cell", bounded(rail, 64)))
	}
	return err
}
