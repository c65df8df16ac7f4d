package httpjson

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
)

// inquiryReader reads answers to inquiries. Like sendReader, it is pure.
type inquiryReader struct {
	config   InquiryResponseConfig
	statuses []int
	http     *codes.Table
	body     *codes.Table
	clean    func(string) string // prepares a text of the bank's for storage
}

// read returns what an answer proves about the payment that was asked about.
func (r inquiryReader) read(a answer, own string) rails.Result {
	status := strconv.Itoa(a.status)
	if a.kept {
		return nothingOf(a, payment.ResultUnavailable, r.http.Origin(status))
	}
	result := rails.Result{
		Result: payment.ResultUnavailable, FirstByte: true,
		Code: status, CodeTable: r.http.Origin(status), Message: "HTTP " + status,
		RetryAfter: retryAfter(a.header),
	}
	doubt := func(why string) rails.Result {
		result.Result = payment.ResultUnavailable
		result.Message = why + "; " + result.Message
		return result
	}
	if entry, _ := r.http.Find(status); entry.Class == codes.Later {
		result.Result = payment.ResultRefusedLater
		return result
	}
	if !slices.Contains(r.statuses, a.status) {
		return doubt("the status code proves nothing about the payment")
	}
	said := readBody(a)
	if !said.readable {
		return doubt("the answer can't be read")
	}
	echoed, stray := said.echo(r.config.Echo, own)
	word, code := said.word(r.config.Status), said.codeOf(said.look(r.config.Code))
	report := codes.ReportWords{Words: r.config.Statuses, Table: r.body}.Read(said.wordOf(word), code)
	report.Code = said.kept(report.Code)
	result.Message = said.explain(result.Message, r.config.Message, r.clean)
	if stray != "" {
		return doubt(stray)
	}
	if word.Kind == jsondoc.Absent {
		return doubt("the answer has no status")
	}
	if reference, ok := said.text(r.config.Reference); ok {
		result.Reference = rails.CleanReference(reference)
	}
	result.Result, result.Unmapped = report.Result, report.Unmapped
	if report.Code != "" {
		result.Code, result.CodeTable = report.Code, r.body.Origin(report.Code)
	}
	if report.Doubt != "" {
		return doubt(report.Doubt)
	}
	proves := result.Result != payment.ResultUnavailable && result.Result != payment.ResultNotFound
	switch {
	case proves && (a.status < 200 || a.status > 299):
		return doubt(fmt.Sprintf("%s can't be proven by HTTP %s", result.Result, status))
	case proves && r.config.Echo != "" && !echoed:
		return doubt("the answer does not name our payment")
	default:
		return result
	}
}
