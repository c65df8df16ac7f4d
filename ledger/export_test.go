package ledger

// Statement gives tests the text of a statement as it runs on a cell.
func Statement(cell, name string) (string, error) {
	loaded, err := loadStatements(cell)
	return loaded[name], err
}
