package payment

// Key names an instruction as its caller does.
type Key struct {
	InstructionID  string
	IdempotencyKey string
}
