package alertdrill

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/alerts"
	"github.com/railhead-pay/railhead/internal/test/promrun"
)

// The past of the run, before its Prometheus starts: the burn rates look back 3 days. All rails of
// the run did well. Rail past, which no longer exists, failed and was slow until a little less
// than 6 hours ago: its ticket alert fires at the start, and resolves when the 6 hours of its
// short window have passed.
const (
	historyStep = 4 * time.Second
	perStep     = 400 // sends of a rail
	pastRail    = "past"
)

// backfill writes the history as Prometheus blocks, with promtool.
func (w *world) backfill(ctx context.Context, rules alerts.Settings) error {
	file, err := os.Create(filepath.Join(w.dir, "history.om"))
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	end := time.Now().Add(-2 * time.Second)
	begin := end.Add(-rules.Scaled(3 * 24 * time.Hour))
	// The last of its failures leave the short window 45 seconds after the start.
	wentWell := end.Add(-rules.Scaled(6*time.Hour) + 45*time.Second)
	rails := []string{pastRail}
	for _, each := range railsOfRun() {
		rails = append(rails, each.Name)
	}
	fmt.Fprintln(out, "# TYPE railhead_rail_sends counter")
	for _, rail := range rails {
		for _, result := range []string{"accepted", "unknown"} {
			writeSeries(out, begin, end, `railhead_rail_sends_total{rail="`+rail+`",result="`+result+`"`, func(at time.Time) int {
				bad := 0
				if rail == pastRail && at.Before(wentWell) {
					bad = perStep / 10
				}
				if result == "accepted" {
					return perStep - bad
				}
				return bad
			})
		}
	}
	fmt.Fprintln(out, "# TYPE dispatch_latency_ms histogram")
	for _, rail := range rails {
		for _, series := range []string{`bucket{le="5000.0",`, `bucket{le="+Inf",`, "count{"} {
			writeSeries(out, begin, end, `dispatch_latency_ms_`+series+`rail="`+rail+`"`, func(at time.Time) int {
				if rail == pastRail && at.Before(wentWell) && series == `bucket{le="5000.0",` {
					return perStep * 3 / 4
				}
				return perStep
			})
		}
	}
	fmt.Fprintln(out, "# EOF")
	if err := out.Flush(); err != nil {
		return err
	}
	said, err := w.programs.Promtool(ctx, "tsdb", "create-blocks-from", "openmetrics", file.Name(), promrun.DataDir(w.dir))
	if err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}

// writeSeries writes a counter that grows in each step by what gain returns.
func writeSeries(out *bufio.Writer, begin, end time.Time, series string, gain func(time.Time) int) {
	total := 0
	for at := begin; at.Before(end); at = at.Add(historyStep) {
		fmt.Fprintf(out, "%s,job=\"railhead\",instance=\"before\"} %d %.3f\n", series, total, float64(at.UnixMilli())/1000)
		total += gain(at)
	}
}
