package streams

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// mistaken is how many parked payments of a run an operator sends again at most.
const mistaken = 5

// doubt has so many payments sent to the topic while all acknowledgements are lost: each is parked, and the topic has
// it. An operator who has not found some of them takes them for not executed, and sends them again: the topic then
// has each twice, and the consumer has to recognise it.
func (w *world) doubt(ctx context.Context, payments int) error {
	l := w.lanes[1]
	l.proxy.LoseAcks(true)
	err := w.enqueue(ctx, payments, railKafka)
	if err == nil {
		err = w.awaitPending(ctx, 0)
	}
	w.keepAcks()
	if err != nil {
		return err
	}
	stored := make(map[string]bool)
	if err := l.log.each(ctx, func(instruction, _ string) { stored[instruction] = true }); err != nil {
		return err
	}
	letters, err := w.operate(ctx, "dead-letter", "list", "--rail", railKafka, "--reason", "OUTCOME_UNKNOWN", "--limit",
		"1000", "-o", "jsonl")
	if err != nil {
		return err
	}
	again := []string{"dead-letter", "replay", "--reason", "a run of make brokers"}
	for lines := bufio.NewScanner(bytes.NewReader(letters)); lines.Scan() && w.made.Mistaken < mistaken; {
		var letter struct {
			OutboxID      string `json:"outbox_id"`
			InstructionID string `json:"instruction_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &letter); err != nil {
			return fmt.Errorf("a dead letter: %w", err)
		}
		if !stored[letter.InstructionID] {
			continue
		}
		var seen struct {
			LastRow int `json:"last_row"`
		}
		if shown, err := w.operate(ctx, "payment", "show", letter.OutboxID, "-o", "json"); err != nil {
			return err
		} else if err := json.Unmarshal(shown, &seen); err != nil {
			return fmt.Errorf("a payment: %w", err)
		}
		if _, err := w.operate(ctx, "dead-letter", "resolve", letter.OutboxID, "--not-executed", "--row",
			strconv.Itoa(seen.LastRow), "--evidence-date",
			time.Now().UTC().Format(time.DateOnly), "--document", "a read that ended early", "--reason",
			"a run of make brokers"); err != nil {
			return err
		}
		w.made.Mistaken++
		again = append(again, letter.OutboxID)
	}
	if _, err := w.operate(ctx, again...); err != nil {
		return err
	}
	return w.awaitPending(ctx, 0)
}
