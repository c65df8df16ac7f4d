package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// asked lists the faults that an installation like this one has to withstand, each with a
// pattern of the faults here that implement it.
var asked = []struct{ what, pattern string }{
	{"kill -9 of a relayer at each point", `kill_relayer_.*`},
	{"kill -9 of a reaper or a caller in the middle", `kill_reaper_.*|kill_caller_.*`},
	{"SIGSTOP past the claim timeout, then SIGCONT", `freeze_.*`},
	{"starvation of a process", `relayer_starved`},
	{"graceful stop with sends in flight, second signal", `graceful_stop|second_signal`},
	{"immediate stop of PostgreSQL under load, 20 times", `postgres_crash`},
	{"backends killed at random", `killed_backends`},
	{"answer to a commit lost", `commit_of_.*`},
	{"network cut, and half-open", `network_cut|network_half_open`},
	{"slow network", `network_slow`},
	{"failover to an asynchronous standby", `failover_async`},
	{"failover to a synchronous standby, cancelled wait", `failover_sync|failover_cancelled_wait`},
	{"demoted primary still reachable", `failover_switchover|primary_read_only`},
	{"rail executed, answer lost", `answer_lost_after_execution|answer_status_500|late_execution|inquiry_.*|key_window_over|refused_meanwhile|replay_duplicate`},
	{"duplicate, can't be traced, no longer known, another's reference: of what is executed", `duplicate_.*|cannot_trace_.*|aged_out_.*|by_reference_.*`},
	{"rail refused, answer lost", `answer_lost_after_refusal|answer_refused|answer_status_503_before`},
	{"rail answers 429, or 404 to some", `rate_limit_.*|poisoned_route`},
	{"rail hangs", `hang_.*`},
	{"garbage, a huge body, a wrong id, a gzip bomb, a redirect", `answer_garbage|answer_huge|answer_gzip_bomb|answer_wrong_id|answer_redirect`},
	{"notifier lost, notifications forged", `notification_.*`},
	{"PgBouncer in the path, its restart", `pooler_.*`},
	{"connections used up", `connections_exhausted`},
	{"table locked", `pending_locked`},
	{"disk full", `disk_full`},
	{"clock jumps", `clock_.*`},
	{"rows that can't be claimed", `poison_rows`},
	{"next partition missing", `partition_missing`},
	{"migration under traffic, two builds together", `migration_under_traffic`},
	{"snapshot held", `held_snapshot`},
	{"everything at once", `everything_at_once`},
	{"one key from fifty callers", `one_key_fifty_callers`},
	{"tampering by a superuser", `tampered_.*`},
	{"failover that forgot sends: duplicates, expiry, a relayer without memory", `failover_(duplicate|expiry|memoryless)`},
	{"virtual machine resumed after hours", `machine_resumed`},
	{"restore to a point in time, of the same backup twice", `restore_.*`},
	{"storage snapshot on the same timeline", `snapshot_.*`},
	{"HTTP API killed and stopped, its server crashed, one key by SQL and over HTTP", `(kill|stop)_api|crash_server_under_api|one_key_by_sql_and_api`},
}

// sum adds up the runs of some faults.
type sum struct {
	runs, hit, lost, inWindow, doubled, falsely, bad int
	seeds                                            map[uint64]bool
	healed                                           []time.Duration
}

// WriteMatrix writes the evidence as a table of the faults asked for. Of each fault and
// seed it counts the last run.
func WriteMatrix(evidence string, out io.Writer) error {
	last, order, err := lastRuns(evidence)
	if err != nil {
		return err
	}
	builds := make(map[string]bool)
	fmt.Fprintf(out, "| # | fault | by the names | runs | seeds | hit | lost | doubled | false | healed p99 "+
		"|\n|---|---|---|---|---|---|---|---|---|---|\n")
	total := sum{seeds: make(map[uint64]bool)}
	for n, each := range asked {
		pattern := regexp.MustCompile("^(?:" + each.pattern + ")$")
		var names []string
		for _, fault := range All() {
			if pattern.MatchString(fault.Name) {
				names = append(names, "`"+fault.Name+"`")
			}
		}
		if names == nil {
			return fmt.Errorf("no fault is %q", each.what)
		}
		one := sum{seeds: make(map[uint64]bool)}
		for _, key := range order {
			if pattern.MatchString(key.fault) {
				one.add(last[key])
				total.add(last[key])
				builds[last[key].Digest] = true
			}
		}
		fmt.Fprintf(out, "| %d | %s | %s | %s |\n", n+1, each.what, strings.Join(names, " "), one)
	}
	fmt.Fprintf(out, "| | **all** | | %s |\n\n%d of %d runs did not go well; they are of %d builds.\n", total, total.bad,
		total.runs, len(builds))
	return nil
}

func lastRuns(path string) (map[task]Report, []task, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	last := make(map[task]Report)
	var order []task
	in := bufio.NewScanner(file)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var report Report
		if json.Unmarshal(in.Bytes(), &report) != nil {
			continue // a blank line, or one that was broken off
		}
		key := task{report.Fault, report.Seed}
		if _, known := last[key]; !known {
			order = append(order, key)
		}
		last[key] = report
	}
	if len(last) == 0 {
		err = errors.New("the evidence holds no run: make faults")
	}
	return last, order, errors.Join(err, in.Err())
}

func (s *sum) add(r Report) {
	s.runs++
	s.hit += r.Hit
	s.lost += r.Verdict.Lost
	s.inWindow += r.Verdict.LostInWindow
	s.doubled += r.Verdict.Doubled + r.Verdict.Unexpected
	s.falsely += r.Verdict.False()
	s.seeds[r.Seed] = true
	s.healed = append(s.healed, r.Healed)
	if !r.Good() {
		s.bad++
	}
}

// String returns the cells of a line from the column of runs on.
func (s sum) String() string {
	lost, healed := fmt.Sprint(s.lost), "-"
	if s.inWindow > 0 {
		lost += fmt.Sprintf(" (%d within the window)", s.inWindow)
	}
	if len(s.healed) > 0 {
		slices.Sort(s.healed)
		healed = s.healed[min(len(s.healed)-1, len(s.healed)*99/100)].Round(100 * time.Millisecond).String()
	}
	return fmt.Sprintf("%d | %d | %d | %s | %d | %d | %s", s.runs, len(s.seeds), s.hit, lost, s.doubled, s.falsely, healed)
}
