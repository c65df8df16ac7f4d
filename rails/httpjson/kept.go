package httpjson

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// askNoCache tells caches on the way to an inquiry's answer to pass the question on, and to keep no
// answer. It is no part of the render version, which is about sends.
const askNoCache = "no-cache, no-store"

// older reports whether an answer says that it was made before the request left, which took so long to
// be answered (RFC 9111, section 5.1). Some proxies count the time of the call itself, in whole seconds.
// The clients of the HTTP API have the same rule.
func older(header http.Header, took time.Duration) bool {
	first, _, _ := strings.Cut(header.Get("Age"), ",")
	age, _ := strconv.ParseInt(strings.TrimSpace(first), 10, 64) //nolint:errcheck // what is no number is no age
	return age > int64((took+time.Second-1)/time.Second)
}

// nothingOf returns what an answer proves that a cache has kept from before the call: nothing, not even
// that the bank is busy or refuses us. It is about another call, at an earlier time, and so about
// another payment or about what was so then.
func nothingOf(a answer, result payment.Result, origin string) rails.Result {
	status := strconv.Itoa(a.status)
	return rails.Result{
		Result: result, FirstByte: true, Code: status, CodeTable: origin,
		Message: "the answer was kept from before the call, by a cache on the way; HTTP " + status,
	}
}
