package main

import (
	"bytes"
	"strings"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// lookAtStory compares the head of payment show with the rows, except the sentences that
// look compares, and each line of its table.
func (w *teller) lookAtStory(line reader.Timeline) {
	w.Helper()
	var text bytes.Buffer
	w.must(writeTimeline(output{w: &text}, line))
	head, _, _ := strings.Cut(text.String(), "\n\n")
	for _, said := range strings.Split(head, "\n")[1:] {
		name, value := strings.TrimSpace(said[:14]), strings.TrimSpace(said[14:])
		switch name {
		case "state", "money", "next", "when opened":
		case "participant", "instruction", "rail key", "priority":
			w.holdOnce("head", name+": "+value)
		case "enqueued": // its age is another each time
			if !w.told[name] {
				w.told[name] = true
				w.hold("head", name+": "+value)
			}
		default:
			w.hold("head", name+": "+value)
		}
	}
	for _, e := range explain.EventsOf(line) {
		w.holdOnce("story", said(eventCells(e)))
	}
}

// lookAtLetters compares each line and each group of dead-letter list with the dead letters.
func (w *teller) lookAtLetters() {
	w.Helper()
	for _, status := range []string{"", string(payment.LetterResolved)} {
		letters, err := w.reader.DeadLetters(w.Context(), reader.LetterFilter{Status: status, Limit: 5})
		w.must(err)
		for _, letter := range letters {
			w.hold("letters", said(letterCells(letter)))
		}
	}
	groups, _, err := w.reader.LettersByCode(w.Context(), reader.LetterFilter{Limit: reader.LettersMax})
	w.must(err)
	for _, group := range groups {
		w.hold("by code", said(groupCells(group)))
	}
}

// said joins a line of a table into one text.
func said(cells []cell) string {
	texts := make([]string, 0, len(cells))
	for _, each := range cells {
		texts = append(texts, each.text)
	}
	return strings.Join(texts, " | ")
}

// holdOnce checks the sentences about rows that never change.
func (w *teller) holdOnce(place, text string) {
	w.Helper()
	if !w.told[text] {
		w.told[text] = true
		w.hold(place, text)
	}
}
