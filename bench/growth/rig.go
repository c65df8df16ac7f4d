package growth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/slowflush"
	"github.com/railhead-pay/railhead/bench/systems"
)

// Rig is what is measured: a server with some cells, each a database with a whole installation of
// its own, and another server with slower flushes. Clients and servers share the machine.
type Rig struct {
	plain, slow *fleet // slow is nil if it can't be had
	temp        string
	seed        uint64 // of the next open load
}

// fleet is a server with its cells.
type fleet struct {
	server *server.Server
	cells  []*installation
}

// installation is one cell.
type installation struct {
	db   server.Database
	next int // number of the next payment
}

// warmPayments make every participant of a cell known, and its first pages.
const warmPayments = 2 * systems.Participants

// settings keep out of a point what depends on when it comes: checkpoints, which add full page
// images to the WAL, and autovacuum, which works up what points before have left. After each point
// its cells are vacuumed, and that is measured by itself.
func settings() map[string]string {
	return map[string]string{"checkpoint_timeout": "1h", "max_wal_size": "16GB", "autovacuum": "off"}
}

// NewRig starts the servers and installs the cells that the points need, below root.
func NewRig(ctx context.Context, root string, points []Point) (r *Rig, err error) {
	r = &Rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(ctx))
		}
	}()
	var plain, slow int
	for _, p := range points {
		if p.Slow > 0 {
			slow = max(slow, p.Load.Cells)
		} else {
			plain = max(plain, p.Load.Cells)
		}
	}
	if r.plain, err = newFleet(ctx, server.Options{Root: root, Settings: settings()}, plain); err != nil {
		return r, err
	}
	if slow == 0 {
		return r, nil
	}
	if r.temp, err = os.MkdirTemp(root, "railhead-growth-"); err != nil {
		return r, err
	}
	if err := os.Chmod(r.temp, 0o755); err != nil { // the server may run as another account
		return r, err
	}
	library, err := slowflush.Build(ctx, r.temp)
	if errors.Is(err, slowflush.ErrNoCompiler) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.slow, err = newFleet(ctx, server.Options{
		Root: root, Settings: settings(), Preload: library, Environment: slowflush.Environment(slowFlush),
	}, slow)
	return r, err
}

func newFleet(ctx context.Context, o server.Options, cells int) (*fleet, error) {
	started, err := server.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	f := &fleet{server: started}
	first, err := started.Create(ctx, "cell", "")
	if err == nil {
		err = systems.Railhead{}.Install(ctx, first)
	}
	for n := 1; n <= cells && err == nil; n++ {
		var db server.Database
		if db, err = started.Create(ctx, "cell", first.Name); err == nil {
			f.cells = append(f.cells, &installation{db: db})
			err = f.cells[n-1].warm(ctx)
		}
	}
	if err == nil {
		err = first.Settle(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, started.Stop(ctx))
	}
	return f, nil
}

// warm pays the first payments of a cell.
func (i *installation) warm(ctx context.Context) error {
	session, err := systems.Railhead{}.Open(ctx, i.db, systems.Options{Producers: 1})
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Fill(ctx, 0, warmPayments); err != nil {
		return err
	}
	i.next = warmPayments
	tally := systems.NewTally()
	stop, err := session.Work(ctx, tally.Watch())
	if err != nil {
		return err
	}
	return errors.Join(tally.Await(ctx, warmPayments), stop())
}

// Close stops the servers.
func (r *Rig) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var faults []error
	for _, f := range []*fleet{r.plain, r.slow} {
		if f != nil {
			faults = append(faults, f.server.Stop(ctx))
		}
	}
	if r.temp != "" {
		faults = append(faults, os.RemoveAll(r.temp))
	}
	return errors.Join(faults...)
}

// Missing returns why a point can't be measured here, or "".
func (r *Rig) Missing(p Point) string {
	if p.Slow > 0 && r.slow == nil {
		return "no cc to build the shim with"
	}
	return ""
}

// Describe returns the server's version and settings.
func (r *Rig) Describe(ctx context.Context) (string, error) {
	set, err := r.plain.server.Describe(ctx)
	return fmt.Sprintf("PostgreSQL %s; %s", r.plain.server.Version(), set), err
}
