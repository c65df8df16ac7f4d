package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
)

// codesBody is the codes of a rail in the newest rows of the archive.
type codesBody struct {
	reader.RailCodes
	Rows     []codeRow
	Unmapped []codeRow // of them, those that the profile in force gives no class
	All      bool      // every row of the archive was read
	Unread   bool      // this build can't read the profile in force: no code has a class here
}

// codeRow is a code with its class under the profile in force.
type codeRow struct {
	reader.RailCode
	Class, Meaning string
	Tone           explain.Tone // of the result
}

// codesOf gives each code its class.
func codesOf(seen reader.RailCodes, inForce reader.ProfileVersion) codesBody {
	body := codesBody{RailCodes: seen, All: seen.Looked < reader.CodesLooked}
	find, err := finder(inForce)
	body.Unread = err != nil
	for _, code := range seen.Codes {
		row := codeRow{RailCode: code, Tone: toneOfResult(code.Result)}
		var entry codes.Entry
		listed := false
		if !body.Unread {
			entry, listed = find(code)
			row.Class, row.Meaning = string(entry.Class), entry.Meaning
		}
		if !listed && !body.Unread {
			row.Class = "unmapped"
			body.Unmapped = append(body.Unmapped, row)
		}
		body.Rows = append(body.Rows, row)
	}
	return body
}

// finder returns what finds a code in the table of its kind, with the overrides of a profile.
func finder(version reader.ProfileVersion) (func(reader.RailCode) (codes.Entry, bool), error) {
	profile, err := rails.ParseProfile(version.Profile)
	if err != nil {
		return nil, err
	}
	body, err := profile.Codes.BodyTable()
	if err != nil {
		return nil, err
	}
	http, err := profile.Codes.HTTPTable()
	if err != nil {
		return nil, err
	}
	return func(code reader.RailCode) (codes.Entry, bool) {
		name, _, _ := strings.Cut(code.Table, "@")
		switch name {
		case http.Name():
			return http.Find(code.Code)
		case body.Name():
			return body.Find(code.Code)
		}
		// The class was the profile's, of which table is not recorded, or the table is not the one
		// of today.
		if entry, listed := body.Find(code.Code); listed {
			return entry, true
		}
		return http.Find(code.Code)
	}, nil
}

// toneOfResult returns the tone of what an answer proves.
func toneOfResult(result string) explain.Tone {
	switch result := payment.Result(result); {
	case result == payment.ResultExecuted, result == payment.ResultAccepted:
		return explain.Good
	case result == payment.ResultUnknown:
		return explain.Alarm
	case strings.HasPrefix(string(result), string(payment.ResultRefused)):
		return explain.Warn
	default:
		return explain.Plain
	}
}

// endRow is a way in which calls of a rail ended.
type endRow struct {
	reader.CallEnd
	Tone  explain.Tone // of the result
	Share string       // of all calls that are counted
	Slow  bool         // one in twenty took longer than the objective of the alerts
	Alert string       // whose runbook is about such ends; empty: none
}

// slowFrom is the time within which a call has to end, as in the objective of the alerts.
const slowFrom = 5 * time.Second

func endsOf(ends []reader.CallEnd) []endRow {
	var all int64
	for _, end := range ends {
		all += end.Calls
	}
	rows := make([]endRow, 0, len(ends))
	for _, end := range ends {
		rows = append(rows, endRow{
			CallEnd: end, Tone: toneOfResult(end.Result), Share: fmt.Sprintf("%.1f %%", 100*float64(end.Calls)/float64(all)),
			Slow: end.P95 > slowFrom, Alert: alertOfResult(end.Result),
		})
	}
	return rows
}

// alertOfResult is the alert about many calls with a result.
func alertOfResult(result string) string {
	switch payment.Result(result) {
	case payment.ResultRefusedTransient, payment.ResultNotSent:
		return "RailheadRetryableSpike"
	case payment.ResultRefusedLater:
		return "RailheadRailBusy"
	case payment.ResultRefusedRail:
		return "RailheadRailPausedItself"
	case payment.ResultUnknown, payment.ResultUnavailable:
		return "RailheadUnknownsGrowing"
	case payment.ResultRefusedFinal, payment.ResultRefusedBusiness:
		return "RailheadDeadLettersGrowing"
	default:
		return ""
	}
}
