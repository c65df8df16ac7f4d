package faultpoint_test

import (
	"bufio"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/faultpoint"
)

// TestReach holds both builds to their word: with the tag the point is told and
// waits, without it nothing happens. It sets the environment before the first
// Reach of this process, and is the only test that calls it.
func TestReach(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv(faultpoint.EnvSocket, socket)
	t.Setenv(faultpoint.EnvPoints, string(faultpoint.Claimed)+","+string(faultpoint.FirstByte))

	if !faultpoint.Enabled {
		listener.Close() // a call would fail to connect, and is not made at all
		faultpoint.Reach(faultpoint.Claimed)
		return
	}
	faultpoint.Reach(faultpoint.Recorded) // not asked for: returns at once
	back := make(chan struct{})
	go func() {
		defer close(back)
		faultpoint.Reach(faultpoint.FirstByte)
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasSuffix(line, " first byte\n") {
		t.Fatalf("told %q, %v", line, err)
	}
	select {
	case <-back:
		t.Fatal("went on before it was told to")
	default:
	}
	if _, err := conn.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	<-back
}

func TestPointsAreKnown(t *testing.T) {
	for _, point := range append(faultpoint.Relayer(), faultpoint.Reaper()...) {
		if !faultpoint.Known(point) || strings.ContainsAny(string(point), ",\n") {
			t.Errorf("point %q can't be asked for", point)
		}
	}
	if faultpoint.Known("nowhere") {
		t.Error("an unknown point is known")
	}
}
