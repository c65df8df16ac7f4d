package explain

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Printable replaces control characters in text from outside: a rail's message
// must not move a terminal's cursor. Line ends stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// OneLine is printable without line ends.
func OneLine(text string) string { return strings.ReplaceAll(Printable(text), "\n", " ") }

// Clock formats a moment in UTC to the millisecond.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Span formats a time span with its two largest units.
func Span(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// Millis returns a number of milliseconds as a duration.
func Millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// OrDash returns a dash for an empty text.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Bounded cuts a text from outside to a length.
func Bounded(text string, limit int) string {
	runes := []rune(Printable(text))
	if len(runes) <= limit {
		return string(runes)
	}
	return string(runes[:limit]) + "..."
}

// SaidCodes joins our code and the rail's: NOT_SENT, AC04, RETRIES_EXHAUSTED/AM04.
func SaidCodes(own, rail string) string {
	if own != "" && rail != "" && own != rail {
		return own + "/" + rail
	}
	if own != "" {
		return own
	}
	return rail
}
