package console

// Titles of groups that code refers to.
const (
	groupTime  = "Time of a call"
	groupOther = "Other fields"
)

// profileGroups are the fields of a profile in the order in which they are shown, each with its
// meaning and its unit; one that is an object or a list stands for all below it.
var profileGroups = []struct {
	title  string
	fields []struct{ path, meaning string }
}{
	{"What an answer proves", []struct{ path, meaning string }{
		{"acceptance", "what the rail's \"accepted\" means: FINAL, the payment was made; PROVISIONAL, an inquiry or a " +
			"callback decides; BY_ANSWER, the class of its code says which"},
		{"answer_covers_key", "whether an answer to one send holds for every send with that key"},
		{"id_after_refusal", "whether the rail accepts a key again after it has refused it: SAME, it does; NEW, it does not"},
		{"refuses_before_processing", "whether a refusal of credentials or route proves that nothing was processed"},
	}},
	{"After silence", []struct{ path, meaning string }{
		{"resend_on_unknown", "SAME_KEY: a send without an answer may be repeated with its key; NEVER: it may not"},
		{"key_window", "time for which the rail remembers a key, from the first send; 0s: not known"},
		{"callback_deadline", "time that a provisional acceptance waits for a callback, from the latest send; 0s: there are none"},
		{"inquiry.max", "inquiries for one payment; 0: the rail can't be asked"},
		{"inquiry.not_before", "time from the latest send to the first inquiry"},
		{"inquiry.intervals", "times between inquiries; the last one repeats"},
		{"inquiry.not_found", "what \"no such payment\" proves"},
		{"inquiry.not_found_age", "age of the latest send from which that holds"},
		{"inquiry.not_found_until", "age of the first send up to which that holds"},
	}},
	{"Sending again", []struct{ path, meaning string }{
		{"retry.max_sends", "sends of one payment that may have reached the rail, the first included"},
		{"retry.shape", "how the waits grow"},
		{"retry.base", "time of the first wait"},
		{"retry.cap", "time of the longest wait, jitter aside"},
		{"retry.jitter", "share by which each wait is varied"},
		{"business_retry.max", "sends that may be followed by another after a business refusal"},
		{"business_retry.wait", "least time until that next send"},
	}},
	{"Pausing itself", []struct{ path, meaning string }{
		{"rail_refused.after", "refusals of our credentials, route or form in a row after which a relayer pauses the rail"},
		{"rail_refused.instructions", "payments that those refusals concern at least"},
		{"rail_refused.per_instruction", "refusals of one payment, while others pass, that end it"},
	}},
	{groupTime, []struct{ path, meaning string }{
		{"timeouts.connect", "time for name look-up and TCP connection"},
		{"timeouts.tls", "time for the TLS handshake"},
		{"timeouts.write", "time to write the request"},
		{"timeouts.response_header", "time from the last byte written to the end of the answer's header"},
		{"timeouts.body", "time for the rest of the answer"},
	}},
	{"Load, of each relayer", []struct{ path, meaning string }{
		{"concurrency", "calls in flight"},
		{"rate.per_second", "calls started a second; 0: no bound"},
		{"rate.burst", "calls started at once after a pause"},
		{"breaker.failure_ratio", "share of failed calls at which the breaker opens"},
		{"breaker.minimum_requests", "answers in the window before that share counts"},
		{"breaker.window", "time of the rolling window"},
		{"breaker.open_for", "time without calls, until probes are sent"},
		{"breaker.half_open_max", "probes that all have to succeed"},
		{"order", "order of the sends of one participant: NONE, as they are due; STRICT, one after another in their sequence"},
		{"order_on_bad_end", "what follows a payment that was refused or has expired: BLOCK, nothing until its dead letter " +
			"is closed; SKIP, the next one"},
		{"order_participants", "the order of single participants, where it is another"},
		{"kind", "payment, or message: whether amount and currency are required"},
		{"headers", "the callers' headers that the rail carries"},
	}},
	{"Codes", []struct{ path, meaning string }{
		{"codes.table", "the table of the codes in answers"},
		{"codes.overrides", "the class that the profile gives this code"},
		{"codes.http", "the class that the profile gives this HTTP status"},
	}},
	{"Checks before a send", []struct{ path, meaning string }{
		{"checks.currencies", "currencies that the rail takes; none listed: any"},
		{"checks.amounts", "bound of one amount, in units of the currency"},
		{"checks.exponents", "decimals of the currency at this rail"},
		{"checks.fields", "rule for a field of the payload"},
		{"checks.required", "fields that a payload must have"},
	}},
	{groupOther, []struct{ path, meaning string }{
		{"rail_type", "the rail"},
		{"version", "assigned by the database"},
	}},
}
