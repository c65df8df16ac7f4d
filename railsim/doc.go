// Package railsim is a simulated bank: real state, real durability, and faults that can be
// switched. It is the independent witness of money in proofs, so it shares no code with the product
// and imports none of it. Whatever the bank answers or fails to answer, its ledger file is the
// truth: each record was on disk before any caller got an answer that rests on it, and only an
// EXECUTED record moved money.
//
// In process: [New], [Bank.Serve], [Bank.Close]. As a process: cmd/railsim. Offline: [ReadLedger],
// [Summarise].
//
// # Endpoints
//
//	POST /payments                             pay; header Idempotency-Key, JSON body
//	GET  /payments/by-key/{key}                inquiry by the client's key
//	GET  /payments/by-reference/{reference}    inquiry by the client's reference
//	GET  /payments/by-id/{id}                  inquiry by the bank's own id
//	GET  /ledger                               all records, JSON lines
//	GET  /ledger/summary                       [Summary]
//	GET  /requests[?key=][&reference=]         {"summary": [RequestSummary], "requests": [[Request], ...]}
//	GET  /accounts                             [[Account], ...]
//	GET  /callbacks                            [CallbackSummary]
//	GET  /admin/faults                         [FaultState]
//	PUT  /admin/faults                         {"rules": [[Fault], ...]} replaces all rules
//	GET  /healthz                              200, or 503 when the ledger can't be written
//
// A payment is
//
//	{"reference": "INV-1", "amount": "10.50", "currency": "EUR",
//	 "debtor": {"account": "A"}, "creditor": {"account": "B"}, ...}
//
// where further fields are allowed anywhere. Amounts are decimal strings with at most the digits of
// their currency. The answers are
//
//	201 {"status":"EXECUTED","id":"RS000000000001","reference":"INV-1","key":...}
//	202 {"status":"ACCEPTED","id":...,"reference":...,"key":...}                   provisional mode
//	422 {"status":"REFUSED","id":...,"reference":...,"key":...,"code":"AC04","message":...}
//	400 {"status":"ERROR","code":"KEY_INVALID"|"INVALID"|"INCOMPLETE"|"ALREADY_EXISTS","message":...}
//	401 {"status":"ERROR","code":"UNAUTHORISED",...}
//	409 {"status":"ERROR","code":"KEY_REUSED"|"IN_FLIGHT"|"DUPL",...}
//	422 or 200 {"status":"REFUSED","code":"DUPL","message":...}                    to a replay, by [Replay]
//	413 {"status":"ERROR","code":"TOO_LARGE",...}
//	500 {"status":"ERROR","code":"LEDGER_BROKEN",...}                             unknown what became of it
//	503 {"status":"ERROR","code":"LEDGER_BROKEN"|"FULL",...}                      nothing executed
//
// A replay inside the key window repeats the first answer with the header "Idempotent-Replayed:
// true". In provisional mode that stays 202 ACCEPTED after settlement: inquiry and callback bring
// the final result. An inquiry answers
//
//	200 {"status":"EXECUTED"|"REFUSED"|"IN_PROGRESS","id":...,"reference":...,"key":...,"code":...,"message":...}
//	404 {"status":"NOT_FOUND"}
//
// It finds the newest payment of a key or reference, without regard to the key window. A later
// refusal does not hide an execution.
//
// # Accounts
//
// Accounts open on demand at balance zero and may go below without limit, unless an [AccountsFile]
// sets limits. By their number alone refuse: CLOSED (AC04), BLOCKED (AC06), UNKNOWN (AC01), and
// POOR as a debtor (AM04).
//
// # Keys
//
// A key is remembered from its first record for Config.KeyWindow, across restarts; after that the
// same key is a new payment, which is what makes late re-sends dangerous. [Behaviour] has the ways
// in which real banks differ: no memory at all, refusals not stored, a changed amount as a new
// payment, and five answers to a replay ([Replay]).
//
// # Ledger file
//
// One [Record] a line, numbered without a gap, appended and synced before the answer. At most one
// process holds it. On start it is replayed: balances, key memory, and payments that were accepted
// and not settled continue. A last line without newline was never durable and is cut off; any other
// damage stops the start. After a write error the bank answers nothing but errors.
//
// # Callbacks
//
// In provisional mode an [Event] is sent for each settled payment, signed as Standard Webhooks do:
// the headers webhook-id, webhook-timestamp (Unix seconds) and webhook-signature, which is "v1,"
// and the base64 of HMAC-SHA256(secret, id.timestamp.body), where the secret is the base64 after
// "whsec_". Callbacks still owed are forgotten when the bank dies.
//
// # Credentials
//
// Client certificates hold for all endpoints. Bearer token and signature hold for those under
// /payments. The signature is "X-Signature: sha256=" and the hex of HMAC-SHA256(secret, timestamp
// followed by body), nothing between, where timestamp is the value of X-Timestamp in Unix seconds,
// within 5 minutes of the bank's clock.
//
// # Faults
//
// Rules are tried in order: all delays that hit apply, and the first other that hits. A rule's draw
// depends on the seed, its place, and the key and its attempt number (or, with [DrawByArrival], the
// running number of the request). The constant of a kind documents its effect and its parameters;
// its name shows what becomes of the money:
//
//	hang_accept, hang_unread                        never executes (per connection; match by nth only)
//	status_before, drop_before, reset_before,
//	hang_before, redirect_before                    never executes, key stays unknown
//	delay_arrival                                   executes late, key unknown meanwhile
//	delay_before                                    executes late, key in flight meanwhile
//	refuse, refuse_drop                             refused durably; new payments only
//	delay_after, drop_after, reset_after,
//	hang_after, status_after, redirect_after,
//	html_after, bad_json_after, empty_after,
//	truncated_after, resent_after, wrong_id_after,
//	another_id_after, wrong_reference_after, huge_after,
//	gzip_bomb_after, drip_headers_after,
//	drip_body_after                                 decided durably first: executed, unless refused by business
//	delay_settle, refuse_settle                     provisional mode, at settlement
//	callback_late, callback_never,
//	callback_duplicate, callback_conflict,
//	callback_wrong_reference,
//	callback_bad_signature                          after settlement
//	inquiry_delay, inquiry_hang, inquiry_drop,
//	inquiry_status, inquiry_inconclusive,
//	inquiry_garbage, inquiry_wrong_id,
//	inquiry_not_found, inquiry_lag, inquiry_blind, inquiry_no_trace,
//	inquiry_forgetful                               change the answer, never the payment
//
// An _after fault, except resent_after, also spoils replays. It does not change answers that rest
// on no durable decision of this payment: 409 KEY_REUSED and IN_FLIGHT, and 503.
package railsim
