package cells

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
)

// apis is how many processes serve all cells over HTTP.
const apis = 2

// callOverHTTP is an enqueue by one of them.
const callOverHTTP = "call over HTTP"

// startAPIs starts them, and opens clients for the participants of the start.
func (w *world) startAPIs(ctx context.Context) error {
	participants := slices.Compact(slices.Sorted(slices.Values(w.known[:settled])))
	token, err := w.createToken(ctx, participants)
	if err != nil {
		return err
	}
	w.overHTTP = make(map[string][]*railhead.HTTPClient)
	for n := range apis {
		// Its first cell, whose map it reads first, is another one than that of the others.
		order := slices.Concat(w.cells[n:], w.cells[:n])
		addr, err := child.FreeAddr()
		if err != nil {
			return err
		}
		env := []string{"RAILHEAD_API_ADDR=" + addr}
		var settings []string
		for _, c := range order {
			settings = append(settings, c.setting())
			env = append(env, "RAILHEAD_CELL"+"_"+c.setting()+"="+c.schema,
				"RAILHEAD_API_URL"+"_"+c.setting()+"="+c.url(install.API))
		}
		s, err := w.startService(ctx, fmt.Sprintf("all-%d", n+1), "api",
			append(env, "RAILHEAD_CELLS="+strings.Join(settings, ",")))
		if s != nil {
			w.apis = append(w.apis, s)
		}
		if err != nil {
			return err
		}
		for _, participant := range participants {
			client, err := railhead.NewHTTP(railhead.HTTPConfig{
				BaseURL: "http://" + addr, ParticipantID: participant, Attempts: 2, Backoff: between,
				Token: func(context.Context) (string, error) { return token, nil },
			})
			if err != nil {
				return err
			}
			w.overHTTP[participant] = append(w.overHTTP[participant], client)
		}
	}
	return nil
}

// createToken creates a token for participants, the same in every cell.
func (w *world) createToken(ctx context.Context, participants []string) (string, error) {
	var settings []string
	env := child.Clean(os.Environ())
	for _, c := range w.cells {
		settings = append(settings, c.setting())
		env = append(env, "RAILHEAD_CELL"+"_"+c.setting()+"="+c.schema, "RAILHEAD_ADMIN_URL"+"_"+c.setting()+"="+c.adminURL)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(w.Binaries, "railhead"), "token", "create", "--name", "callers",
		"--cells", strings.Join(settings, ","), "--participant", strings.Join(participants, ","),
		"--verbs", "enqueue,read", "--expires-in", "24h", "--reason", "a run of make cells")
	command.Env = env
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("railhead token create: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}
