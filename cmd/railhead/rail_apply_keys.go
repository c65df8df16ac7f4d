package main

import (
	"context"
	"fmt"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// sharedNames returns for each rail of a file how a bank could take one payment for another because the cell allows
// second keys, or nil. Only an apply can say so: rail check has no cell, and a relayer does not see the setting.
func sharedNames(ctx context.Context, o *operator.Operator, file railconfig.File) ([]error, error) {
	allows, err := o.AllowsSecondKeys(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]error, len(file.Rails))
	for n, rail := range file.Rails {
		if why := rail.SecondKeys(); allows && why != nil {
			all[n] = usage(fmt.Errorf("rail %s: %w", oneLine(rail.RailType), why))
		}
	}
	return all, nil
}
