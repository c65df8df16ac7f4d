package proofs

// ShowingAll makes the report name every violation.
func (o Options) ShowingAll() Options {
	o.shown = 1 << 30
	return o
}
