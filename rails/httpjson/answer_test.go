package httpjson

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/codes"
)

const own = "rh0123456789abcdef0123456789abcdef"

func tables(t testing.TB, facts map[string]codes.Class) (httpTable, body *codes.Table) {
	t.Helper()
	httpTable, err := codes.Named("http")
	if err != nil {
		t.Fatal(err)
	}
	if body, err = codes.Named("iso20022"); err != nil {
		t.Fatal(err)
	}
	if body, err = body.With(facts); err != nil {
		t.Fatal(err)
	}
	return httpTable, body
}

func reader(t testing.TB, acceptance payment.Acceptance) sendReader {
	httpTable, body := tables(t, map[string]codes.Class{"H1": codes.HoldRail})
	return sendReader{
		http: httpTable, body: body, acceptance: acceptance,
		config: SendResponseConfig{
			Status: "status", Reference: "id", Code: "error.code", Message: "error.text", Echo: "reference",
			Statuses: map[string]codes.Class{"EXECUTED": codes.Executed, "PENDING": codes.InProgress, "REFUSED": codes.ByCode,
				"REJECTED": codes.ByCodeOrFirst, "LATER": codes.Refused, "SEEN": codes.Duplicate},
		},
	}
}

// TestWhatAnAnswerProves is the table of status code against body. The columns are a first and a
// later send.
func TestWhatAnAnswerProves(t *testing.T) {
	const (
		acc  = payment.ResultAccepted
		fin  = payment.ResultRefusedFinal
		tra  = payment.ResultRefusedTransient
		biz  = payment.ResultRefusedBusiness
		lat  = payment.ResultRefusedLater
		rail = payment.ResultRefusedRail
		unk  = payment.ResultUnknown
	)
	r := reader(t, payment.AcceptanceFinal)
	good := `{"status":"EXECUTED","id":"b1","reference":"` + own + `"}`
	for name, c := range map[string]struct {
		status       int
		body         string
		first, later payment.Result
		code         string
		unmapped     bool
	}{
		"executed":                        {201, good, acc, acc, "201", false},
		"executed by 200":                 {200, good, acc, acc, "200", false},
		"executed by 202":                 {202, good, acc, acc, "202", false},
		"pending on a FINAL rail":         {202, `{"status":"PENDING","id":"b1","reference":"` + own + `"}`, unk, unk, "202", false},
		"a word of the table":             {200, `{"status":"ACSC","id":"b1","reference":"` + own + `"}`, acc, acc, "200", false},
		"no echo":                         {201, `{"status":"EXECUTED","id":"b1"}`, unk, unk, "201", false},
		"another's echo":                  {201, `{"status":"EXECUTED","id":"b1","reference":"x"}`, unk, unk, "201", false},
		"no reference":                    {201, `{"status":"EXECUTED","reference":"` + own + `"}`, unk, unk, "201", false},
		"empty reference":                 {201, `{"status":"EXECUTED","id":"","reference":"` + own + `"}`, unk, unk, "201", false},
		"no status":                       {201, `{"id":"b1","reference":"` + own + `"}`, unk, unk, "201", false},
		"no status but a code":            {200, `{"id":"b1","reference":"` + own + `","error":{"code":"AC04"}}`, unk, unk, "AC04", false},
		"unmapped status":                 {201, `{"status":"DONE","id":"b1","reference":"` + own + `"}`, unk, unk, "DONE", true},
		"lower case is another word":      {201, `{"status":"executed","id":"b1","reference":"` + own + `"}`, unk, unk, "executed", true},
		"accepts and refuses":             {201, `{"status":"EXECUTED","id":"b1","reference":"` + own + `","error":{"code":"AC04"}}`, unk, unk, "AC04", false},
		"accepts with an odd remark":      {201, `{"status":"EXECUTED","id":"b1","reference":"` + own + `","error":{"code":"0000"}}`, acc, acc, "0000", false},
		"refused in a 200":                {200, `{"status":"REFUSED","error":{"code":"AC04"}}`, fin, fin, "AC04", false},
		"refused in a 200 without a code": {200, `{"status":"REFUSED"}`, unk, unk, "200", false},
		"refused":                         {422, `{"status":"REFUSED","error":{"code":"AC04"}}`, fin, fin, "AC04", false},
		"refused, another's echo":         {422, `{"status":"REFUSED","reference":"x","error":{"code":"AC04"}}`, unk, unk, "AC04", false},
		"refused for now":                 {422, `{"status":"REFUSED","error":{"code":"AB05"}}`, tra, tra, "AB05", false},
		"refused for lack of funds":       {422, `{"status":"REFUSED","error":{"code":"AM04"}}`, biz, biz, "AM04", false},
		"refused as duplicate":            {422, `{"status":"REFUSED","error":{"code":"AM05"}}`, unk, unk, "AM05", false},
		"duplicate by word":               {422, `{"status":"SEEN"}`, unk, unk, "422", false},
		"refused, rail in trouble":        {422, `{"status":"REFUSED","error":{"code":"H1"}}`, rail, rail, "H1", false},
		"unmapped code":                   {422, `{"status":"REFUSED","error":{"code":"AC99"}}`, unk, unk, "AC99", true},
		"numeric code":                    {422, `{"status":"REFUSED","error":{"code":5104}}`, unk, unk, "5104", true},
		"refusal without words":           {422, `{"title":"bad"}`, fin, unk, "422", false},
		"bad request without words":       {400, `{}`, fin, unk, "400", false},
		"refusal of no code":              {422, `{"status":"REFUSED"}`, fin, unk, "422", false},
		"refusal by a proxy":              {422, `<html>`, unk, unk, "422", false},
		"refusal in a list":               {422, `[]`, unk, unk, "422", false},
		"refusal that accepts":            {422, good, unk, unk, "422", false},
		"unauthorized":                    {401, `<html>`, rail, rail, "401", false},
		"unauthorized, own words":         {401, `{"status":"denied","error":{"code":"E1"}}`, unk, unk, "denied", true},
		"forbidden, own code":             {403, `{"status":"REFUSED","error":{"code":"SCA_REQUIRED"}}`, unk, unk, "SCA_REQUIRED", true},
		"forbidden, no words":             {403, `{"title":"no"}`, rail, rail, "403", false},
		"no route, own word":              {404, `{"status":"NO_SUCH_ACCOUNT"}`, unk, unk, "NO_SUCH_ACCOUNT", true},
		"forbidden for this payment":      {403, `{"status":"REFUSED","error":{"code":"AG01"}}`, fin, fin, "AG01", false},
		"forbidden and accepted":          {403, good, unk, unk, "403", false},
		"no route":                        {404, ``, rail, rail, "404", false},
		"too many":                        {429, `slow down`, lat, lat, "429", false},
		"too many, own words":             {429, `{"status":"denied","error":{"code":"E1"}}`, lat, lat, "429", false},
		"too early":                       {425, ``, lat, lat, "425", false},
		"too many but accepted":           {429, good, unk, unk, "429", false},
		"conflict":                        {409, `{"status":"REFUSED","error":{"code":"AC04"}}`, unk, unk, "AC04", false},
		"server error":                    {500, `{"status":"REFUSED","error":{"code":"AC04"}}`, unk, unk, "AC04", false},
		"unavailable":                     {503, ``, unk, unk, "503", false},
		"redirect":                        {307, good, unk, unk, "307", false},
		"unmapped HTTP status":            {299, good, unk, unk, "299", true},
		"teapot":                          {418, ``, unk, unk, "418", true},
	} {
		for sendNo, want := range map[int]payment.Result{1: c.first, 2: c.later, 7: c.later} {
			got, _ := r.read(answer{status: c.status, header: http.Header{}, body: []byte(c.body)}, sendNo, own)
			if got.Result != want || got.Code != c.code || got.Unmapped != c.unmapped || !got.FirstByte || got.CodeTable == "" {
				t.Errorf("%s, send %d: %+v, want %s by %s, unmapped %v", name, sendNo, got, want, c.code, c.unmapped)
			}
			if refused := want == rail || c.unmapped && c.status >= 401 && c.status <= 404; got.RailRefused != refused {
				t.Errorf("%s, send %d: the rail refuses us: %v, want %v", name, sendNo, got.RailRefused, refused)
			}
		}
	}
}

// TestAnswersThatSayWhatTheyMean tests a rail with acceptance BY_ANSWER: an answer ends the payment
// only if word and status code both mean that it is executed, and echo and reference are required
// as for any other acceptance.
func TestAnswersThatSayWhatTheyMean(t *testing.T) {
	const (
		done  = `"status":"EXECUTED"`
		taken = `"status":"PENDING"`
		ours  = `,"id":"b1","reference":"` + own + `"`
	)
	r := reader(t, payment.AcceptanceByAnswer)
	for name, c := range map[string]struct {
		status int
		body   string
		want   payment.Result
	}{
		"executed":                    {201, done + ours, payment.ResultExecuted},
		"taken":                       {202, taken + ours, payment.ResultAccepted},
		"taken, by the word alone":    {200, taken + ours, payment.ResultAccepted},
		"executed, and not completed": {202, done + ours, payment.ResultAccepted},
		"no echo":                     {201, done + `,"id":"b1"`, payment.ResultUnknown},
		"another's echo":              {201, done + `,"id":"b1","reference":"x"`, payment.ResultUnknown},
		"no reference":                {201, done + `,"reference":"` + own + `"`, payment.ResultUnknown},
		"refused and executed":        {422, done + ours, payment.ResultUnknown},
		"refused":                     {422, `"status":"REFUSED","error":{"code":"AC04"}`, payment.ResultRefusedFinal},
	} {
		got, _ := r.read(answer{status: c.status, header: http.Header{}, body: []byte("{" + c.body + "}")}, 1, own)
		if got.Result != c.want {
			t.Errorf("%s: %s, want %s (%s)", name, got.Result, c.want, got.Message)
		}
	}
}

// TestAnswersOfARailThatKnowsTheKey tests SeenBefore of an UNKNOWN answer that may mean "seen
// before". For the first send it is set only if the answer can mean nothing else, because the
// rail's "no such payment" proves nothing after it.
func TestAnswersOfARailThatKnowsTheKey(t *testing.T) {
	r := reader(t, payment.AcceptanceFinal)
	for name, c := range map[string]struct {
		status int
		body   string
		later  bool
		first  bool
	}{
		"duplicate by code":                 {422, `{"status":"REFUSED","error":{"code":"AM05"}}`, true, true},
		"duplicate by word":                 {422, `{"status":"SEEN"}`, true, true},
		"duplicate in a 200":                {200, `{"status":"SEEN"}`, true, true},
		"duplicate behind a clear word":     {200, `{"status":"LATER","error":{"code":"AM05"}}`, true, true},
		"duplicate in a 500":                {500, `{"status":"SEEN"}`, true, true},
		"bad request":                       {400, `{}`, true, false},
		"a refusal that can't be read":      {422, `<html>`, true, false},
		"unmapped code behind a bad status": {422, `{"status":"REFUSED","error":{"code":"AC99"}}`, true, false},
		"conflict":                          {409, `{}`, true, false},
		"conflict, refused":                 {409, `{"status":"REFUSED","error":{"code":"AC04"}}`, true, false},
		"refused for good":                  {422, `{"status":"REFUSED","error":{"code":"AC04"}}`, false, false},
		"refused for now":                   {422, `{"status":"REFUSED","error":{"code":"AM04"}}`, false, false},
		"duplicate of another payment":      {422, `{"status":"SEEN","reference":"x"}`, false, false},
		"executed":                          {201, `{"status":"EXECUTED","id":"b1","reference":"` + own + `"}`, false, false},
		"executed without an echo":          {201, `{"status":"EXECUTED","id":"b1"}`, false, false},
		"server error":                      {500, ``, false, false},
		"unauthorized":                      {401, `<html>`, false, false},
	} {
		for sendNo, want := range map[int]bool{0: c.later, 1: c.first, 2: c.later, 7: c.later} {
			got, _ := r.read(answer{status: c.status, header: http.Header{}, body: []byte(c.body)}, sendNo, own)
			if got.SeenBefore != want || got.SeenBefore && got.Result != payment.ResultUnknown {
				t.Errorf("%s, send %d: seen before %v, %s, want %v", name, sendNo, got.SeenBefore, got.Result, want)
			}
		}
	}
}

func TestPendingOnAProvisionalRail(t *testing.T) {
	r := reader(t, payment.AcceptanceProvisional)
	got, _ := r.read(answer{status: 202, header: http.Header{},
		body: []byte(`{"status":"PENDING","id":"b1","reference":"` + own + `"}`)}, 1, own)
	if got.Result != payment.ResultAccepted || got.Reference != "b1" {
		t.Errorf("%+v", got)
	}
}

// TestByStatusCodeAlone is a bank whose body has a reference and no status.
func TestByStatusCodeAlone(t *testing.T) {
	r := reader(t, payment.AcceptanceFinal)
	r.config = SendResponseConfig{Reference: "id"}
	for body, want := range map[string]payment.Result{
		`{"id":"b1"}`: payment.ResultAccepted, `{"id":7}`: payment.ResultAccepted,
		`{}`: payment.ResultUnknown, ``: payment.ResultUnknown, `{"id":{"a":1}}`: payment.ResultUnknown, `<html>`: payment.ResultUnknown,
	} {
		if got, _ := r.read(answer{status: 201, header: http.Header{}, body: []byte(body)}, 1, own); got.Result != want {
			t.Errorf("%s: %s, want %s", body, got.Result, want)
		}
	}
	if got, _ := r.read(answer{status: 202, header: http.Header{}, body: []byte(`{"id":"b1"}`)}, 1,
		own); got.Result != payment.ResultUnknown {
		t.Errorf("202 on a FINAL rail is %s: only an inquiry can tell", got.Result)
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-1": 0, "1.5": 0, "999999": maxRetryAfter, "99999999999999": 0,
		"Wed, 21 Oct 2026 07:28:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func asker(t testing.TB) inquiryReader {
	httpTable, body := tables(t, nil)
	return inquiryReader{
		http: httpTable, body: body, statuses: []int{200, 404},
		config: InquiryResponseConfig{
			Status: "status", Reference: "id", Code: "code", Message: "text", Echo: "reference",
			Statuses: map[string]payment.Result{"EXECUTED": payment.ResultExecuted, "REFUSED": payment.ResultRefused,
				"NOT_FOUND": payment.ResultNotFound},
		},
	}
}

func TestWhatAnInquiryProves(t *testing.T) {
	r := asker(t)
	for name, c := range map[string]struct {
		status   int
		body     string
		want     payment.Result
		unmapped bool
	}{
		"executed":             {200, `{"status":"EXECUTED","id":"b1","reference":"` + own + `"}`, payment.ResultExecuted, false},
		"executed, no echo":    {200, `{"status":"EXECUTED","id":"b1"}`, payment.ResultUnavailable, false},
		"executed, another's":  {200, `{"status":"EXECUTED","id":"b1","reference":"x"}`, payment.ResultUnavailable, false},
		"executed in a 404":    {404, `{"status":"EXECUTED","reference":"` + own + `"}`, payment.ResultUnavailable, false},
		"executed in a 500":    {500, `{"status":"EXECUTED","reference":"` + own + `"}`, payment.ResultUnavailable, false},
		"refused":              {200, `{"status":"REFUSED","code":"AC04","reference":"` + own + `"}`, payment.ResultRefused, false},
		"refused, odd code":    {200, `{"status":"REFUSED","code":"ZZ","reference":"` + own + `"}`, payment.ResultRefused, true},
		"a word of the table":  {200, `{"status":"PDNG","reference":"` + own + `"}`, payment.ResultInProgress, false},
		"rejected, no reason":  {200, `{"status":"RJCT","reference":"` + own + `"}`, payment.ResultUnavailable, false},
		"not found":            {404, `{"status":"NOT_FOUND"}`, payment.ResultNotFound, false},
		"not found in a 200":   {200, `{"status":"NOT_FOUND"}`, payment.ResultNotFound, false},
		"not found, another's": {404, `{"status":"NOT_FOUND","reference":"x"}`, payment.ResultUnavailable, false},
		"a proxy's 404":        {404, `<html>`, payment.ResultUnavailable, false},
		"a bare 404":           {404, ``, payment.ResultUnavailable, false},
		"a word unknown":       {200, `{"status":"MAYBE","reference":"` + own + `"}`, payment.ResultUnavailable, true},
		"no word":              {200, `{"reference":"` + own + `"}`, payment.ResultUnavailable, false},
	} {
		got := r.read(answer{status: c.status, header: http.Header{}, body: []byte(c.body)}, own)
		if got.Result != c.want || got.Unmapped != c.unmapped {
			t.Errorf("%s: %+v, want %s, unmapped %v", name, got, c.want, c.unmapped)
		}
	}
}

// TestDuplicateProvesNothing tests a bank that calls a payment a duplicate: it has seen its key
// before, and no other payment has the key. What counts as the first send is not always the first
// that the bank received.
func TestDuplicateProvesNothing(t *testing.T) {
	httpTable, _ := tables(t, nil)
	seen := 0
	for _, name := range codes.Names() {
		table, err := codes.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		for entry := range table.All() {
			if entry.Class != codes.Duplicate {
				continue
			}
			for what, r := range map[string]sendReader{
				"CODE":          {config: SendResponseConfig{Status: "s", Code: "c", Statuses: map[string]codes.Class{"RJCT": codes.ByCode}}},
				"CODE_OR_T1":    {config: SendResponseConfig{Status: "s", Code: "c", Statuses: map[string]codes.Class{"RJCT": codes.ByCodeOrFirst}}},
				"T":             {config: SendResponseConfig{Status: "s", Code: "c", Statuses: map[string]codes.Class{"RJCT": codes.Terminal}}},
				"R":             {config: SendResponseConfig{Status: "s", Code: "c", Statuses: map[string]codes.Class{"RJCT": codes.Refused}}},
				"its own class": {config: SendResponseConfig{Status: "s", Code: "c"}},
				"no word":       {config: SendResponseConfig{Reference: "r", Code: "c"}},
			} {
				r.http, r.body, r.acceptance = httpTable, table, payment.AcceptanceFinal
				for _, status := range []int{200, 400, 409, 422} {
					for sendNo := range 3 {
						body := `{"s":"RJCT","r":"b1","c":"` + entry.Code + `"}`
						got, _ := r.read(answer{status: status, header: http.Header{}, body: []byte(body)}, sendNo, own)
						if got.Result != payment.ResultUnknown {
							t.Errorf("%s %s, RJCT is %s, HTTP %d to send %d: %s", table, entry.Code, what, status, sendNo, got.Result)
						}
						seen++
					}
				}
			}
		}
	}
	if seen < 900 {
		t.Errorf("only %d answers were read", seen)
	}
}

// TestUnmappedReasonOfARejection tests that the status proves that this send was not executed; the
// meaning of an unmapped reason is not known.
func TestUnmappedReasonOfARejection(t *testing.T) {
	r := reader(t, payment.AcceptanceFinal)
	for _, word := range []string{"REJECTED", "RJCT"} {
		for body, want := range map[string]struct {
			first, later payment.Result
			code         string
			unmapped     bool
		}{
			`"error":{"code":"9909"}`: {payment.ResultRefusedFinal, payment.ResultUnknown, "9909", true},
			`"error":{}`:              {payment.ResultRefusedFinal, payment.ResultUnknown, "200", false},
			`"error":{"code":"AC04"}`: {payment.ResultRefusedFinal, payment.ResultRefusedFinal, "AC04", false},
			`"error":{"code":"AM04"}`: {payment.ResultRefusedBusiness, payment.ResultRefusedBusiness, "AM04", false},
			`"error":{"code":"NOAS"}`: {payment.ResultUnknown, payment.ResultUnknown, "NOAS", false},
			`"id":"b1","reference":"` + own + `","error":{"code":"ACSC"}`: {payment.ResultUnknown, payment.ResultUnknown, "ACSC",
				false},
			`"id":"b1","reference":"` + own + `","error":{"code":"G000"}`: {payment.ResultUnknown, payment.ResultUnknown, "G000",
				false},
		} {
			for n, result := range []payment.Result{want.first, want.later} {
				text := []byte(`{"status":"` + word + `",` + body + `}`)
				got, _ := r.read(answer{status: 200, header: http.Header{}, body: text}, n+1, own)
				if got.Result != result || got.Code != want.code || got.Unmapped != want.unmapped {
					t.Errorf("%s to send %d: %+v, want %s, code %s, unmapped %v", text, n+1, got, result, want.code, want.unmapped)
				}
			}
		}
	}
	// A proxy's status code decides by itself, and a status that proves nothing stays unclear.
	for status, want := range map[int]payment.Result{429: payment.ResultRefusedLater, 500: payment.ResultUnknown,
		422: payment.ResultRefusedFinal} {
		got, _ := r.read(answer{status: status, header: http.Header{},
			body: []byte(`{"status":"REJECTED","error":{"code":"9909"}}`)}, 1, own)
		if got.Result != want {
			t.Errorf("HTTP %d: %+v, want %s", status, got, want)
		}
	}
}

// TestQuestionRefused tests a bank that can't trace the payment and rejects the inquiry. That does
// not refuse the payment, which may be in transit.
func TestQuestionRefused(t *testing.T) {
	for what, word := range map[string]payment.Result{"CODE": codes.ReportedByCode, "REFUSED": payment.ResultRefused,
		"its own": ""} {
		r := asker(t)
		if word != "" {
			r.config.Statuses = map[string]payment.Result{"RJCT": word}
		}
		for code, want := range map[string]payment.Result{
			"AG09": payment.ResultNotFound, "NARR": payment.ResultUnavailable, "AM05": payment.ResultUnavailable,
			"AC04": payment.ResultRefused, "XX99": payment.ResultUnavailable, "": payment.ResultUnavailable,
		} {
			if word == payment.ResultRefused {
				// By the profile the word refuses the payment.
				switch code {
				case "AG09":
					want = payment.ResultUnavailable
				case "XX99", "":
					want = payment.ResultRefused
				}
			}
			body := `{"status":"RJCT","reference":"` + own + `","code":"` + code + `"}`
			got := r.read(answer{status: 200, header: http.Header{}, body: []byte(body)}, own)
			if got.Result != want || got.Unmapped != (code == "XX99") {
				t.Errorf("RJCT is %s, code %q: %+v, want %s", what, code, got, want)
			}
		}
	}
}

// FuzzAnswers tests that only a complete, listed answer that names our payment changes the state of
// the money, and that nothing panics.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`{"status":"EXECUTED","id":"b1","reference":"` + own + `"}`, `{"status":"REFUSED","error":{"code":"AC04"}}`,
		`{"status":{"status":1}}`, `[[[[`, `{"a":1e400}`, "\x00", `{"status":"EXECUTED","status":"REFUSED"}`,
	} {
		for _, status := range []int{200, 202, 404, 422, 429, 500} {
			f.Add(status, []byte(body), "", 1)
		}
	}
	f.Add(200, []byte("\x1f\x8b"), "gzip", 2)
	sends, asks := reader(f, payment.AcceptanceFinal), asker(f)
	f.Fuzz(func(t *testing.T, status int, body []byte, coding string, sendNo int) {
		a := answer{status: status, header: http.Header{"Content-Encoding": {coding}}, body: body}
		got, _ := sends.read(a, sendNo, own)
		if !slices.Contains(payment.SendResults(), got.Result) || got.Result == payment.ResultNotSent {
			t.Errorf("a send has the result %q", got.Result)
		}
		said := readBody(a)
		if got.Result == payment.ResultAccepted {
			echo, _ := said.text("reference")
			if status < 200 || status > 299 || echo != own || got.Reference == "" {
				t.Errorf("accepted on HTTP %d %q", status, body)
			}
		}
		if got.Result == payment.ResultRefusedFinal && !said.readable {
			t.Errorf("refused for good on HTTP %d %q", status, body)
		}
		asked := asks.read(a, own)
		if !slices.Contains(payment.InquiryResults(), asked.Result) || asked.Result == payment.ResultNotSent {
			t.Errorf("an inquiry has the result %q", asked.Result)
		}
		if asked.Result != payment.ResultUnavailable && asked.Result != payment.ResultRefusedLater && !said.readable {
			t.Errorf("%s is proven by HTTP %d %q", asked.Result, status, body)
		}
	})
}
