package ledger

import "strings"

// Statement gives tests the text of a statement as it runs on a cell.
func Statement(cell, name string) (string, error) {
	loaded, err := loadStatements(cell)
	return loaded[name], err
}

// RecordNothing gives tests the arguments, in SQL, of record or record_done for one
// outcome of which nothing is known.
func RecordNothing(name string) string {
	arguments := []string{"ARRAY[gen_random_uuid()]"}
	for _, c := range recorded[name] {
		arguments = append(arguments, "ARRAY[NULL]::"+c.sqlType+"[]")
	}
	return "(" + strings.Join(arguments, ", ") + ")"
}
