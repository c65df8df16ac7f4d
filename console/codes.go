package console

import (
	"strings"

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
