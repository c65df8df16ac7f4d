package payment

// Key identifies an instruction by the caller's own identifiers.
type Key struct {
	InstructionID  string
	IdempotencyKey string
}
