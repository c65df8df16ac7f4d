package railsim

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// paid is the path of a closed ledger with n executions.
func paid(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	f := start(t, Config{LedgerPath: path})
	for i := range n {
		name := string(rune('a' + i))
		f.want(f.pay(name, simple(name)), http.StatusCreated, "EXECUTED")
	}
	f.close()
	return path
}

func TestTornLastLineIsCutOff(t *testing.T) {
	path := paid(t, 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for _, cut := range []int{last + 1, (last + len(whole)) / 2, len(whole) - 1} {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		records, err := ReadLedger(path)
		if err != nil || len(records) != 2 {
			t.Errorf("cut at %d of %d: %d records, %v", cut, len(whole), len(records), err)
		}
		f := start(t, Config{LedgerPath: path})
		f.ledger(2, 0)
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, whole[:last]) {
			t.Errorf("cut at %d: the file was not cut back to whole lines (%v)", cut, err)
		}
		// The torn payment was never answered, and goes through now; the others are known.
		if g := f.pay("c", simple("c")); replayed(g) || g.status != http.StatusCreated {
			t.Errorf("torn payment: %v", g)
		}
		if g := f.pay("b", simple("b")); !replayed(g) {
			t.Errorf("whole payment: %v", g)
		}
		f.ledger(3, 0)
		f.close()
	}
}

func TestDamagedLedgerStopsTheStart(t *testing.T) {
	path := paid(t, 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for _, c := range []struct{ name, content, says string }{
		{"a line is missing", lines[0] + lines[2], "line 2: it says seq 3"},
		{"a line is doubled", lines[0] + lines[0], "line 2: it says seq 1"},
		{"a line is no JSON", lines[0] + "hello\n" + lines[1], "line 2"},
		{"an amount is no amount", strings.Replace(lines[0], `"10.50"`, `"10,50"`, 1), "line 1"},
		{"an id is no id", strings.Replace(lines[0], `"RS`, `"XX`, 1), "line 1"},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{LedgerPath: path}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != c.content {
			t.Errorf("%s: the evidence was changed (%v)", c.name, err)
		}
	}
}

func TestOneBankPerLedger(t *testing.T) {
	f := start(t, Config{})
	if _, err := New(Config{LedgerPath: f.bank.cfg.LedgerPath}); err == nil ||
		!strings.Contains(err.Error(), "another bank") {
		t.Errorf("second bank: %v", err)
	}
	f.close()
	second, err := New(Config{LedgerPath: f.bank.cfg.LedgerPath})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// After a write error no answer reports an execution, and the bank answers only errors until it is
// started again.
func TestBrokenLedgerSilencesTheBank(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	bank, err := New(Config{LedgerPath: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := bank.journal.file.Close(); err != nil { // the disk is gone
		t.Fatal(err)
	}
	p, err := parseOrder("k", []byte(simple("r")))
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
		if a, decided := bank.pay(p, nil); decided || a.status != status || a.reply.Code != "LEDGER_BROKEN" {
			t.Errorf("answer %+v, want %d", a, status)
		}
	}
	if a := bank.inquire(bank.byKey["k"], "k", Fault{}); a.reply.Status != "IN_PROGRESS" {
		t.Errorf("inquiry says %+v", a.reply)
	}
	if s := bank.Summary(); s.Executed != 0 {
		t.Errorf("summary %+v", s)
	}
	if err := bank.Close(); err == nil {
		t.Error("close is silent about the broken ledger")
	}
}

// Lines of many writers are each durable when their wait returns, whole and in order.
func TestGroupCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	j, err := openJournal(path, func(Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				end := j.append([]byte("0123456789\n"))
				if err := j.wait(end); err != nil {
					t.Error(err)
				}
				if info, err := os.Stat(path); err != nil || info.Size() < end {
					t.Errorf("answered at %d with %d bytes in the file (%v)", end, info.Size(), err)
				}
			}
		})
	}
	wg.Wait()
	if err := j.close(); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "0123456789\n") != 400 || len(data) != 4400 {
		t.Errorf("%d bytes in the file (%v)", len(data), err)
	}
	if err := j.wait(j.append([]byte("x\n"))); err == nil {
		t.Error("a closed journal takes lines")
	}
}

func TestScanReportsReadErrors(t *testing.T) {
	if _, err := scanLedger(iotest.ErrReader(os.ErrDeadlineExceeded), nil); err == nil {
		t.Error("no error")
	}
	if _, err := scanLedger(strings.NewReader(strings.Repeat("x", maxLine+1<<17)), nil); err == nil {
		t.Error("a line without end was read to its end")
	}
}

// Whatever is in the file, reading it ends with records or an error, and what was read is numbered without a gap.
func FuzzScanLedger(f *testing.F) {
	r := Record{Seq: 1, Kind: Executed, ID: "RS000000000001", Key: "k", Reference: "r", Amount: "1.00", Currency: "EUR",
		Time: time.Unix(0, 0).UTC()}
	line, err := encodeRecord(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(append(line, line[:20]...))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := int64(0)
		whole, err := scanLedger(bytes.NewReader(data), func(r Record) error {
			n++
			if r.Seq != n {
				t.Errorf("record %d has seq %d", n, r.Seq)
			}
			_, _ = paymentOf(r)
			return nil
		})
		if whole > int64(len(data)) || (err == nil && whole > 0 && data[whole-1] != '\n') {
			t.Errorf("%d of %d bytes are whole lines (%v)", whole, len(data), err)
		}
	})
}
