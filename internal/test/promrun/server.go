package promrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/internal/test/child"
)

// Config configures a server.
type Config struct {
	Dir   string // its data, configuration and log
	Rules []byte
	// Scrape and Evaluate are the intervals, at least 100 ms; Lookback is how long a sample counts as
	// the latest.
	Scrape, Evaluate, Lookback time.Duration
	// Targets are scraped from the start; SetTargets changes them.
	Targets map[string]Target
}

// Server is a private Prometheus, on a free port of this machine.
type Server struct {
	URL     string
	dir     string
	process *child.Process
}

// Start starts a server, and returns when it answers.
func (p Programs) Start(ctx context.Context, c Config) (*Server, error) {
	s := &Server{dir: c.Dir}
	config := fmt.Sprintf(`global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[2]s}
rule_files: [%[3]q]
scrape_configs:
  - job_name: railhead
    file_sd_configs: [{files: [%[4]q], refresh_interval: 1s}]
`, ms(c.Scrape), ms(c.Evaluate), filepath.Join(c.Dir, "rules.yaml"), s.targetsFile())
	for name, text := range map[string][]byte{"prometheus.yaml": []byte(config), "rules.yaml": c.Rules} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	if err := s.SetTargets(c.Targets); err != nil {
		return nil, err
	}
	addr, err := child.FreeAddr()
	if err != nil {
		return nil, err
	}
	s.URL = "http://" + addr
	if s.process, err = (child.Command{
		Name: "prometheus", Binary: filepath.Join(p.dir, "prometheus"), Env: os.Environ(), Dir: c.Dir,
		Log: filepath.Join(c.Dir, "prometheus.log"),
		Args: []string{
			"--config.file=" + filepath.Join(c.Dir, "prometheus.yaml"), "--storage.tsdb.path=" + DataDir(c.Dir),
			"--web.listen-address=" + addr, "--query.lookback-delta=" + ms(c.Lookback), "--log.level=warn",
		},
	}).Start(); err != nil {
		return nil, err
	}
	if err := s.process.Until(ctx, "answer", func() bool { return s.get(ctx, "/-/ready", nil, nil) == nil }); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// DataDir returns the folder in which the server of a folder keeps its blocks.
func DataDir(dir string) string { return filepath.Join(dir, "tsdb") }

func ms(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func (s *Server) targetsFile() string { return filepath.Join(s.dir, "targets.json") }

// Target is a process that is scraped. An empty cell sets no label.
type Target struct{ Addr, Cell string }

// SetTargets sets the processes that are scraped, by the name that becomes the label instance.
func (s *Server) SetTargets(targets map[string]Target) error {
	groups := []any{}
	for instance, target := range targets {
		labels := map[string]string{"instance": instance, "cell": target.Cell}
		groups = append(groups, map[string]any{"targets": []string{target.Addr}, "labels": labels})
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	draft := s.targetsFile() + ".new"
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		return err
	}
	return os.Rename(draft, s.targetsFile())
}

// Alert is an alert that is pending or firing.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"`
	ActiveAt    time.Time         `json:"activeAt"`
	Value       string            `json:"value"`
}

// Alerts returns the alerts that are pending or firing now.
func (s *Server) Alerts(ctx context.Context) ([]Alert, error) {
	var data struct {
		Alerts []Alert `json:"alerts"`
	}
	err := s.get(ctx, "/api/v1/alerts", nil, &data)
	return data.Alerts, err
}

// Count returns how many series an expression has now.
func (s *Server) Count(ctx context.Context, expr string) (int, error) {
	var data struct {
		Result []json.RawMessage `json:"result"`
	}
	err := s.get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &data)
	return len(data.Result), err
}

func (s *Server) get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("prometheus: %s: %s: %.300s", path, answer.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, &struct {
		Data any `json:"data"`
	}{into})
}

// Stop ends the server.
func (s *Server) Stop() error { return s.process.Stop(20 * time.Second) }
