package ledger_test

import (
	"strings"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// statementText is the text of a statement as it runs on a cell.
func statementText(cell, name string) (string, error) {
	loaded, err := store.LoadStatements(cell)
	return loaded[name], err
}

// recordNothing is the arguments, in SQL, of record or record_done for one
// outcome of which nothing is known.
func recordNothing(name string) string {
	arguments := []string{"ARRAY[gen_random_uuid()]"}
	for _, c := range store.Recorded[name] {
		arguments = append(arguments, "ARRAY[NULL]::"+c.SQLType+"[]")
	}
	return "(" + strings.Join(arguments, ", ") + ")"
}
