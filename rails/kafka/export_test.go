package kafka

import "time"

// SetClock sets the clock by which a rail judges how long a certificate has not been trusted.
func (r *Rail) SetClock(now func() time.Time) { r.now = now }
