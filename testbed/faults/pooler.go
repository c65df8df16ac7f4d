package faults

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// poolerFaults returns the faults of a PgBouncer in transaction mode between all
// processes and the server.
func poolerFaults() []Fault {
	late := func(o *Options) { o.Relayers, o.Reapers, o.Wave = 0, 0, 60 }
	return []Fault{
		{
			Name: "pooler_restarted",
			About: "all work goes through PgBouncer in transaction mode, LISTEN past it, and PgBouncer is killed and " +
				"started under load",
			Adjust: late, Quiet: true,
			Inject: func(ctx context.Context, w *World) error { return w.pooled(ctx, true, restartPooler) },
			Check:  noneByName,
		},
		{
			Name:   "pooler_lost_listen",
			About:  "LISTEN goes through the pooler too, which takes it and delivers nothing: the relayer finds out and polls",
			Adjust: func(o *Options) { late(o); o.Rounds = 1; o.Poll = 20 * time.Second }, Quiet: true,
			Inject: func(ctx context.Context, w *World) error { return w.pooled(ctx, false, lostListen) },
			Check:  noneByName,
		},
	}
}

// pooled starts the processes behind a pooler, and then injects the fault.
func (w *World) pooled(ctx context.Context, listen bool, fault func(context.Context, *World, *bouncer) error) error {
	b, err := w.newBouncer(ctx)
	if err != nil {
		return err
	}
	// Ends run in reverse order: the log is kept before the pooler's folder is removed.
	w.ends = append(w.ends, func(context.Context) error { return w.keepLog(b) })
	if listen {
		w.env = append(w.env, "RAILHEAD_LISTEN_URL="+w.url(loginRelayer))
	}
	w.reach = func(login string) string { return b.url(w.database, login) }
	w.Options.Relayers, w.Options.Reapers = 1, 1
	if _, err := w.StartRelayer(ctx); err != nil {
		return err
	}
	if _, err := w.StartReaper(ctx); err != nil {
		return err
	}
	err = fault(ctx, w, b)
	// The installation is judged at the end, and the pooler's sessions are not part of it.
	w.atRest = append(w.atRest, func(context.Context) error { b.kill(); return nil })
	return err
}

func restartPooler(ctx context.Context, w *World, b *bouncer) error {
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		pause(ctx, time.Duration(200+w.draws.IntN(400))*time.Millisecond)
		var through int
		if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name LIKE 'railhead-%'
		  AND client_port > 0`).Scan(&through); err != nil {
			return err
		}
		w.Injected++
		w.Hit += min(through, 1)
		if err := b.restart(ctx, w.database); err != nil {
			return err
		}
	}
	return w.Snapshot(ctx)
}

func lostListen(ctx context.Context, w *World, _ *bouncer) error {
	w.Injected++
	err := await.Until(ctx, 15*time.Second, "the relayer to find its notifier lost", func() (bool, error) {
		state, err := w.metric(ctx, w.relayers[0], `railhead_notifier_state\{[^}]*state="lost"[^}]*\}`)
		return state == "1", err
	})
	if err != nil {
		w.Broken("%v", err)
		return nil
	}
	w.Hit++
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	// The poll alone would take 20 s.
	begun := time.Now()
	if _, err := w.AwaitRest(ctx); err != nil || time.Since(begun) > 10*time.Second {
		w.Broken("with a lost notifier it took %s to rest: %v", time.Since(begun), err)
	}
	return nil
}

// metric returns the value that a process exports under a name that the pattern matches,
// and the empty string if there is none.
func (w *World) metric(ctx context.Context, p *Process, pattern string) (string, error) {
	addr, err := p.AwaitFile(ctx, w.addrFile(p.Name))
	if err != nil {
		return "", err
	}
	client := &http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^` + pattern + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return "", nil
	}
	return string(found[1]), nil
}

// ofByName matches the SQLSTATEs of a prepared statement that exists already, and of one
// that does not exist: as the server's errors give them, and as a row that was
// quarantined gives its reason. The bare digits are part of durations and ids too.
var ofByName = regexp.MustCompile(`SQLSTATE[ _](?:42P05|26000)\b`)

// lineMax bounds what is kept of a line of a log, in bytes.
const lineMax = 500

// noneByName checks that no process has met a prepared statement that was another
// session's, or that did not exist.
func noneByName(w *World, _ Facts) {
	for _, p := range w.processes() {
		text, err := os.ReadFile(p.Log)
		if err != nil {
			w.Broken("%v", err)
			continue
		}
		for _, line := range byName(text) {
			w.Broken("%s met a statement that was prepared by name: %s", p.Name, line)
		}
	}
}

// byName returns the lines of a log in which a statement prepared by name failed.
func byName(log []byte) []string {
	var found []string
	for line := range strings.Lines(string(log)) {
		if ofByName.MatchString(line) {
			line = strings.TrimSuffix(line, "\n")
			found = append(found, line[:min(len(line), lineMax)])
		}
	}
	return found
}

// keepLog copies the pooler's log into the folder of the run, which is kept when the run
// does not go well. The pooler's own folder is removed with the pooler.
func (w *World) keepLog(b *bouncer) error {
	text, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it never started
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.dir, "pgbouncer.log"), text, 0o644)
}
