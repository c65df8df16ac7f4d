package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

func statusCommand() *cobra.Command {
	money, all := false, false
	command := &cobra.Command{
		Use: "status", Short: "Show the state of the cell: its rails, instructions and components",
		Long: "Show the state of the cell, in one snapshot: for each rail the instructions in pending and their age,\n" +
			"those in flight, those with an unknown outcome and the dead letters, how many lines of strict order wait for\n" +
			"an operator, then pauses and closed gates, and the components by the age of their heartbeat, which is\n" +
			"stale after the setting heartbeat_stale. The cost does not depend on the size of the archive.\n" +
			"--money adds up the amounts by rail and currency, of at most 100,000 instructions a rail.\n" +
			"--all-cells shows every cell over which participants are spread, one after the other, each in a snapshot of\n" +
			"its own. One that is not reached is named, the others are shown, and the exit code is 6.\n" +
			"Connects with RAILHEAD_READER_URL, and to a cell with setting WEST with RAILHEAD_READER_URL_WEST.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSettings()
			if err != nil {
				return err
			}
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				if all {
					return statusOfAll(cmd, s, reader, money)
				}
				shown, err := readStatus(cmd.Context(), reader, money)
				if err != nil {
					return err
				}
				o := outputOf(cmd)
				if o.json {
					return o.document(shown)
				}
				return shown.write(o, s.Cell, money)
			})
		},
	}
	command.Flags().BoolVar(&money, "money", false, "add up the amounts in pending, in flight and in dead letters")
	command.Flags().BoolVar(&all, "all-cells", false, "show every cell of the directory: see railhead cell")
	return command
}

// readStatus reads what the command shows of one cell.
func readStatus(ctx context.Context, reader *reader.Reader, money bool) (shown statusAndMoney, err error) {
	if shown.Status, err = reader.Status(ctx); err == nil && money {
		shown.Money, err = reader.Money(ctx)
	}
	return shown, err
}

func (s statusAndMoney) write(o output, name string, money bool) error {
	if err := writeStatus(o, name, s.Status); err != nil || !money {
		return err
	}
	return writeMoney(o, s.Money)
}

// statusAndMoney is the JSON of the command.
type statusAndMoney struct {
	reader.Status
	Money []reader.Money `json:"money,omitempty"`
}

func writeMoney(o output, all []reader.Money) error {
	if len(all) == 0 {
		return o.text("\nno money waits\n")
	}
	rows := make([][]cell, 0, len(all))
	for _, money := range all {
		more := ""
		if money.AtLeast {
			more = "+"
		}
		part := cell{text: money.Part}
		if money.Part != "waiting" && money.Part != "in flight" {
			part.tone = warn
		}
		rows = append(rows, []cell{
			{text: money.RailType}, part, {text: strconv.FormatInt(money.Instructions, 10) + more},
			{text: orDash(money.Amount) + more}, {text: oneLine(money.Currency)},
		})
	}
	if err := o.text("\n"); err != nil {
		return err
	}
	return o.table([]string{"RAIL", "MONEY", "INSTRUCTIONS", "AMOUNT", "CURRENCY"}, rows)
}

func writeStatus(o output, name string, status reader.Status) error {
	if err := o.text("cell %s at %s\n\n", name, clock(status.Now)); err != nil {
		return err
	}
	if err := writeRailStatus(o, status); err != nil {
		return err
	}
	for _, rail := range status.Rails {
		for n, why := range rail.NotClaimed {
			if n == 0 && rail.Due > 0 {
				why = fmt.Sprintf("%d due on rail %s: %s", rail.Due, rail.RailType, why)
			}
			if err := o.text("%s\n", oneLine(why)); err != nil {
				return err
			}
		}
	}
	if err := writeBlocked(o, status.Rails); err != nil {
		return err
	}
	if err := writePauses(o, status); err != nil {
		return err
	}
	if len(status.ClosedGates) > 0 {
		if err := o.text("\n"); err != nil {
			return err
		}
		if err := writeGates(o, status.ClosedGates); err != nil {
			return err
		}
	}
	if err := writeHeartbeats(o, status.Heartbeats); err != nil {
		return err
	}
	return writeCutShort(o, status.CutShort)
}

// writeBlocked counts the heads of strict order that wait for an operator.
func writeBlocked(o output, rails []reader.RailStatus) error {
	for _, rail := range rails {
		b := rail.OrderBlocked
		if b == nil {
			continue
		}
		more := plus(b.Capped())
		err := o.text("rail %s: lines that are blocked in order: %d%s, the first since %s: railhead payment show %s\n",
			rail.RailType, b.Heads, more, clock(b.Since), b.OutboxID)
		if err != nil {
			return err
		}
	}
	return nil
}

// writeCutShort names the lists that are incomplete; incomplete numbers have a plus.
func writeCutShort(o output, parts []reader.Part) error {
	lists := map[reader.Part]string{
		reader.PartRails:        "there are more rails than the 1,000 that are listed",
		reader.PartParticipants: "more participants are paused than the 100 that are listed, those paused last",
		reader.PartGates:        "enqueue is closed for more than the 100 that are listed, those closed last",
		reader.PartHeartbeats:   "there are more components than the 200 that are listed, those with the latest heartbeats",
	}
	for _, part := range parts {
		if words := lists[part]; words != "" {
			if err := o.text("%s\n", words); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeRailStatus(o output, status reader.Status) error {
	if len(status.Rails) == 0 {
		return o.text("no rails yet: railhead rail apply FILE\n")
	}
	flights, letters := status.IsCutShort(reader.PartInFlight), status.IsCutShort(reader.PartDeadLetters)
	rows := make([][]cell, 0, len(status.Rails))
	for _, rail := range status.Rails {
		more := plus(rail.Capped)
		unknown := cell{text: strconv.FormatInt(rail.OutcomeUnknown, 10) + plus(rail.Capped || flights || letters)}
		if rail.OutcomeUnknown > 0 {
			unknown.tone = warn
		}
		rows = append(rows, []cell{
			{text: rail.RailType}, pausedCell(rail.Pause, status.Everything),
			{text: strconv.FormatInt(rail.Pending, 10) + more}, {text: strconv.FormatInt(rail.Due, 10) + more},
			{text: ageOf(rail.OldestDueMS)}, {text: strconv.FormatInt(rail.InFlight, 10) + plus(flights)},
			{text: ageOf(rail.OldestClaimMS)},
			unknown, lettersCell(rail.DeadLetters, plus(letters)), lanesCell(rail, plus(status.IsCutShort(reader.PartLanes))),
		})
	}
	return o.table([]string{"RAIL", "PAUSED", "PENDING", "DUE", "OLDEST DUE", "IN FLIGHT", "OLDEST CLAIM", "UNKNOWN",
		"DEAD LETTERS", "RELAYERS"}, rows)
}

// plus follows a number that may be higher, because the count ended at its bound.
func plus(more bool) string {
	if more {
		return "+"
	}
	return ""
}

// lanesCell counts the running relayers that serve a rail, in red where none can claim.
func lanesCell(rail reader.RailStatus, more string) cell {
	shown := cell{text: strconv.Itoa(len(rail.Lanes)) + more}
	if len(rail.NotClaimed) > 0 {
		shown.tone = alarm
	}
	return shown
}

func ageOf(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return span(millis(ms))
}

// pausedCell distinguishes a rail's own pause from the one of everything.
func pausedCell(own, everything *reader.Pause) cell {
	switch {
	case own != nil:
		return cell{"yes", alarm}
	case everything != nil:
		return cell{"everything", alarm}
	default:
		return cell{text: "no"}
	}
}

func lettersCell(letters []reader.LetterCount, more string) cell {
	if len(letters) == 0 {
		return cell{text: "0" + more}
	}
	texts := make([]string, 0, len(letters))
	for _, count := range letters {
		texts = append(texts, fmt.Sprintf("%d%s %s", count.Open, more, count.Reason))
	}
	return cell{strings.Join(texts, ", "), alarm}
}

func writePauses(o output, status reader.Status) error {
	var pauses []reader.Pause
	if status.Everything != nil {
		pauses = append(pauses, *status.Everything)
	}
	for _, rail := range status.Rails {
		if rail.Pause != nil {
			pauses = append(pauses, *rail.Pause)
		}
	}
	pauses = append(pauses, status.Participants...)
	if len(pauses) == 0 {
		return nil
	}
	rows := make([][]cell, 0, len(pauses))
	for _, pause := range pauses {
		rows = append(rows, []cell{{oneLine(pause.What), alarm}, {text: clock(pause.At)}, {text: clock(pause.Until)},
			{text: pause.By}, {text: oneLine(pause.Reason)}})
	}
	if err := o.text("\n"); err != nil {
		return err
	}
	return o.table([]string{"PAUSED", "SINCE", "UNTIL", "BY", "REASON"}, rows)
}

func writeHeartbeats(o output, beats []reader.Beat) error {
	if len(beats) == 0 {
		return o.text("\nno relayer and no reaper has run here within a day\n")
	}
	rows := make([][]cell, 0, len(beats))
	for _, beat := range beats {
		tone := toneIn(explain.ToneOfFreshness(beat.Freshness))
		rows = append(rows, []cell{
			{text: beat.Kind}, {string(beat.Freshness), tone}, {text: span(millis(beat.AgeMS))},
			clockCell(beat.ClockOffsetMS),
			{text: beat.Status}, {text: oneLine(beat.Name)}, {text: oneLine(beat.Host)}, {text: oneLine(beat.Version)},
			{text: orDash(oneLine(beat.Activity))},
		})
	}
	if err := o.text("\n"); err != nil {
		return err
	}
	return o.table([]string{"COMPONENT", "HEARTBEAT", "AGE", "CLOCK", "STATUS", "NAME", "HOST", "VERSION", "DOES"}, rows)
}

// clockCell shows by how much the database's clock is ahead of the host's.
func clockCell(offsetMS int64) cell {
	text, tone := explain.ClockOffset(offsetMS)
	return cell{text, toneIn(tone)}
}
