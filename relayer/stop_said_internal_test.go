package relayer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// TestTimeOfAStopIsSaid compares what the pages say of the longest stop of a relayer, before which it is not to be
// killed, with its bounds: the transaction under way, the drain, the records, and the last heartbeat.
func TestTimeOfAStopIsSaid(t *testing.T) {
	t.Parallel()
	budget := outbox.DefaultTimeBudget()
	longest := Config{}.withDefaults().StoreTimeout + budget.Drain + budget.RecordWithin + 5*time.Second
	inSeconds := fmt.Sprintf("%d s by default", int(longest.Seconds()))
	pages, err := filepath.Glob("../alerts/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, page := range append(pages, "../docs/operations.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for n, paragraph := range strings.Split(string(text), "\n\n") {
			if !strings.Contains(paragraph, "SIGKILL only after") && !strings.Contains(paragraph, "That takes at most") {
				continue
			}
			said++
			if !strings.Contains(paragraph, "RAILHEAD_STORE_TIMEOUT") || !strings.Contains(paragraph, inSeconds) {
				t.Errorf("%s: paragraph %d gives another time than %s", page, n+1, inSeconds)
			}
		}
	}
	if said < 4 {
		t.Errorf("%d paragraphs give the time", said)
	}
}
