package railsim

import (
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// clock is a hand-set clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func replayed(g got) bool { return g.header.Get("Idempotent-Replayed") == "true" }

func TestReplayAndReuse(t *testing.T) {
	f := start(t, Config{})
	first := f.pay("k", simple("r"))
	again := f.pay("k", simple("r"))
	f.want(again, http.StatusCreated, "EXECUTED")
	if replayed(first) || !replayed(again) || string(first.body) != string(again.body) {
		t.Errorf("first %v, again %v", first, again)
	}
	f.want(f.pay("k", order1("r", "10.51", "A", "B")), http.StatusConflict, "KEY_REUSED")
	f.want(f.pay("k", simple("r")+" "), http.StatusConflict, "KEY_REUSED") // other bytes are another body
	f.ledger(1, 0)
	if s := f.bank.RequestSummary(); s.ChangedKeys != 1 {
		t.Errorf("requests %+v", s)
	}
	f.want(f.pay("k2", simple("r")), http.StatusCreated, "EXECUTED") // another key is another payment
	if s := f.ledger(2, 0); s.Doubled != 1 || len(s.DoubledReferences) != 1 || s.DoubledReferences[0] != "r" {
		t.Errorf("summary %+v", s)
	}
	if s := f.bank.RequestSummary(); s.RekeyedReferences != 1 {
		t.Errorf("requests %+v", s)
	}
}

func TestKeyWindow(t *testing.T) {
	c := newClock()
	f := start(t, Config{Now: c.Now, KeyWindow: time.Hour})
	f.want(f.pay("k", simple("r")), http.StatusCreated, "EXECUTED")
	c.add(time.Hour - 1)
	if g := f.pay("k", simple("r")); !replayed(g) {
		t.Errorf("inside the window: %v", g)
	}
	f.ledger(1, 0)
	c.add(1)
	if g := f.pay("k", simple("r")); replayed(g) || g.status != http.StatusCreated {
		t.Errorf("after the window: %v", g)
	}
	s := f.ledger(2, 0)
	if s.Doubled != 1 || s.DistinctKeys != 1 {
		t.Errorf("summary %+v", s)
	}
}

func TestBehaviours(t *testing.T) {
	closed := order1("c", "1.00", "A", "CLOSED")
	for _, c := range []struct {
		name              string
		behaviour         Behaviour
		body1, body2      string
		status            int
		word              string
		executed, refused int
	}{
		{"safe", Behaviour{}, simple("r"), simple("r"), 201, "EXECUTED", 1, 0},
		{"no dedupe", Behaviour{NoDedupe: true}, simple("r"), simple("r"), 201, "EXECUTED", 2, 0},
		{"refusals stored", Behaviour{}, closed, closed, 422, "AC04", 0, 1},
		{"refusals forgotten", Behaviour{ForgetRefusals: true}, closed, closed, 422, "AC04", 0, 2},
		{"duplicate", Behaviour{OnReplay: ReplayDuplicate}, simple("r"), simple("r"), 409, "DUPL", 1, 0},
		{"duplicate as a refusal", Behaviour{OnReplay: ReplayDuplicate422}, simple("r"), simple("r"), 422, "DUPL", 1, 0},
		{"duplicate with success", Behaviour{OnReplay: ReplayDuplicate200}, simple("r"), simple("r"), 200, "DUPL", 1, 0},
		{"bad request", Behaviour{OnReplay: ReplayBadRequest}, simple("r"), simple("r"), 400, "ALREADY_EXISTS", 1, 0},
		{"changed amount", Behaviour{}, simple("r"), order1("r", "11.00", "A", "B"), 409, "KEY_REUSED", 1, 0},
		{"changed amount is new", Behaviour{ChangedAmountIsNew: true}, simple("r"), order1("r", "11.00", "A", "B"), 201, "EXECUTED", 2, 0},
		{"changed reference is not new", Behaviour{ChangedAmountIsNew: true}, simple("r"), simple("s"), 409, "KEY_REUSED", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t, Config{Behaviour: c.behaviour})
			f.pay("k", c.body1)
			f.want(f.pay("k", c.body2), c.status, c.word)
			f.ledger(c.executed, c.refused)
		})
	}
}

// TestOnReplayCanBeSwitched: the same replay is answered as the bank is set now, and an unknown way is refused.
func TestOnReplayCanBeSwitched(t *testing.T) {
	f := start(t, Config{})
	f.want(f.pay("k", simple("r")), 201, "EXECUTED")
	for _, c := range []struct {
		replay Replay
		status int
		word   string
	}{
		{ReplayDuplicate422, 422, "REFUSED"}, {ReplayDuplicate200, 200, "REFUSED"}, {ReplayDuplicate, 409, "ERROR"},
		{ReplayBadRequest, 400, "ALREADY_EXISTS"}, {ReplayStored, 201, "EXECUTED"},
	} {
		if err := f.bank.SetOnReplay(c.replay); err != nil {
			t.Fatal(err)
		}
		f.want(f.pay("k", simple("r")), c.status, c.word)
	}
	if err := f.bank.SetOnReplay("perhaps"); err == nil {
		t.Error("an unknown answer to replays is taken")
	}
	f.ledger(1, 0)
}

func TestMemoryOutlivesTheBank(t *testing.T) {
	c := newClock()
	cfg := Config{Now: c.Now, KeyWindow: time.Hour, LedgerPath: filepath.Join(t.TempDir(), "ledger.jsonl")}
	f := start(t, cfg)
	first := f.pay("k", simple("r"))
	f.pay("c", order1("c", "1.00", "A", "CLOSED"))
	f.close()

	c.add(time.Hour - 1)
	f = start(t, cfg)
	again := f.pay("k", simple("r"))
	if !replayed(again) || string(again.body) != string(first.body) {
		t.Errorf("first %v, again %v", first, again)
	}
	refused := f.pay("c", order1("c", "1.00", "A", "CLOSED"))
	f.want(refused, http.StatusUnprocessableEntity, "AC04")
	if !replayed(refused) {
		t.Error("the refusal was judged afresh")
	}
	f.want(f.pay("k", simple("s")), http.StatusConflict, "KEY_REUSED")
	if g := f.pay("k3", simple("r3")); g.reply.ID != "RS000000000003" {
		t.Errorf("the ids do not continue: %v", g)
	}
	if a := f.bank.Accounts(); a[0].Balance != "-21.00" {
		t.Errorf("balance %s", a[0].Balance)
	}
	if mem, file := f.bank.Summary(), f.ledger(2, 1); mem.Executed != file.Executed || mem.Records != file.Records {
		t.Errorf("memory says %+v, the file %+v", mem, file)
	}
	f.close()

	c.add(1)
	f = start(t, cfg)
	if g := f.pay("k", simple("r")); replayed(g) {
		t.Errorf("after the window: %v", g)
	}
}

// A later refusal must not hide from inquiry that money moved.
func TestRefusalHidesNoExecution(t *testing.T) {
	c := newClock()
	cfg := Config{Now: c.Now, KeyWindow: time.Hour, LedgerPath: filepath.Join(t.TempDir(), "ledger.jsonl")}
	f := start(t, cfg)
	f.want(f.pay("k", simple("r")), http.StatusCreated, "EXECUTED")
	c.add(time.Hour)
	f.want(f.pay("k", order1("r", "1.00", "A", "CLOSED")), http.StatusUnprocessableEntity, "AC04")
	f.want(f.inquire("k"), http.StatusOK, "EXECUTED")
	f.close()
	f = start(t, cfg)
	f.want(f.inquire("k"), http.StatusOK, "EXECUTED")
	f.want(f.do(t.Context(), http.MethodGet, "/payments/by-reference/r", ""), http.StatusOK, "EXECUTED")
}

func TestStrictAccounts(t *testing.T) {
	accounts, err := ParseAccounts([]byte(`{"strict":true,"accounts":[
		{"account":"A","currency":"EUR","balance":"10.00","overdraft":"5.00"},
		{"account":"B","currency":"EUR","balance":"0"},
		{"account":"X","currency":"EUR","balance":"0","status":"BLOCKED"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, Config{Accounts: accounts})
	f.want(f.pay("1", order1("1", "15.00", "A", "B")), http.StatusCreated, "EXECUTED")
	f.want(f.pay("2", order1("2", "0.01", "A", "B")), http.StatusUnprocessableEntity, "AM04")
	f.want(f.pay("3", order1("3", "0.01", "B", "X")), http.StatusUnprocessableEntity, "AC06")
	f.want(f.pay("4", order1("4", "0.01", "B", "Y")), http.StatusUnprocessableEntity, "AC01")
	if a := f.bank.Accounts(); a[0].Balance != "-5.00" || *a[0].Overdraft != "5.00" || a[2].Status != "BLOCKED" {
		t.Errorf("accounts %+v", a)
	}
}
