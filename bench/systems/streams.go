package systems

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Listened is a session whose API has open streams of events.
type Listened interface {
	// Listen opens a number of streams (up to Participants), each of one participant, until stop is
	// called; heard returns how many events they have received.
	Listen(ctx context.Context, streams int) (heard func() int64, stop func() error, err error)
	// Resident returns the memory that the API's process holds, in bytes.
	Resident() (int64, error)
}

// Listen implements Listened.
func (s *railheadSession) Listen(ctx context.Context, streams int) (func() int64, func() error, error) {
	ctx, cancel := context.WithCancel(ctx)
	transport := &http.Transport{MaxConnsPerHost: streams}
	var heard atomic.Int64
	var reading, opening sync.WaitGroup
	failed := make(chan error, streams)
	gate := make(chan struct{}, 32)
	for n := range streams {
		gate <- struct{}{}
		opening.Add(1)
		reading.Go(func() {
			opened := sync.OnceFunc(func() { <-gate; opening.Done() })
			defer opened()
			if err := s.stream(ctx, transport, n, &heard, opened); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	opening.Wait()
	stop := func() error {
		cancel()
		reading.Wait()
		transport.CloseIdleConnections()
		select {
		case err := <-failed:
			return err
		default:
			return nil
		}
	}
	return heard.Load, stop, nil
}

// stream reads one stream until the context ends.
func (s *railheadSession) stream(
	ctx context.Context, transport *http.Transport, n int, heard *atomic.Int64, opened func(),
) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		s.api.base+"/v1/events?participant_id="+Participant(n), http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.api.token)
	request.Header.Set("Accept", "text/event-stream")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("stream %d: %s", n, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		opened() // its first line: where it begins
		if bytes.HasPrefix(lines.Bytes(), []byte("event: ")) {
			heard.Add(1)
		}
	}
	return errors.Join(lines.Err(), fmt.Errorf("stream %d was ended", n))
}

// Resident implements Listened.
func (s *railheadSession) Resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.api.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the API's process says nothing of its memory")
}
