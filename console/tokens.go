package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// tokensMax bounds the tokens that are shown.
const tokensMax = 500

// tokensBody is the body of the page of the tokens of the HTTP API.
type tokensBody struct {
	Rows     []tokenRow
	More     bool // there are more tokens
	CutShort bool // there are more than were looked at
	Refused  bool // one of them was used while it was not in force
}

// tokenRow is a token with its state in words.
type tokenRow struct {
	reader.ListedToken
	For, May string
	State    string
	Tone     explain.Tone
}

// tokens shows the tokens of the HTTP API: those that were used while they were not in force first, the latest such
// use first, and then the newest.
func (c *Console) tokens(w http.ResponseWriter, r *http.Request, _ Person) {
	seen := c.stateFor(w, r)
	if seen == nil {
		return
	}
	all, cutShort, err := c.reader.Tokens(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	slices.SortStableFunc(all, func(a, b reader.ListedToken) int {
		return cmp.Or(b.LastRefusedAt.Compare(a.LastRefusedAt), b.CreatedAt.Compare(a.CreatedAt))
	})
	body := tokensBody{More: len(all) > tokensMax, CutShort: cutShort}
	now := seen.Clock()
	for _, token := range all[:min(len(all), tokensMax)] {
		row := tokenRow{ListedToken: token, For: strings.Join(token.Participants, ", "), May: strings.Join(token.Verbs, ", ")}
		row.State, row.Tone = tokenState(token, now)
		body.Rows, body.Refused = append(body.Rows, row), body.Refused || token.Refused > 0
	}
	c.show(w, r, "tokens.html", page{Title: "Tokens", Body: body})
}

// tokenState describes whether a token grants anything.
func tokenState(token reader.ListedToken, now time.Time) (string, explain.Tone) {
	switch {
	case !token.RevokedAt.IsZero():
		return "revoked since " + explain.Clock(token.RevokedAt), explain.Plain
	case !token.ExpiresAt.After(now):
		return "expired since " + explain.Clock(token.ExpiresAt), explain.Plain
	default:
		return "in force until " + explain.Clock(token.ExpiresAt), explain.Good
	}
}
