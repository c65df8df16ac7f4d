package proofs

// ShowingAll names every offence in the report.
func (o Options) ShowingAll() Options {
	o.shown = 1 << 30
	return o
}
