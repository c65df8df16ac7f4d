// Command pgrun runs a command along with a private PostgreSQL:
//
//	pgrun [-major 18] [-set name=value] [-root dir] [-log file] -- go test ./...
//
// The command finds the superuser's URL in TEST_DATABASE_URL; if that is set already, no server is
// started. pgrun -find only says which PostgreSQL it would use, and exits with 1 if there is none.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// exitOwn is the exit code for errors of pgrun itself, distinct from those of the command.
const exitOwn = 125

func main() {
	os.Exit(run())
}

func run() int {
	settings := pgserver.TestSettings()
	opts := pgserver.Options{Settings: settings, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	find := flag.Bool("find", false, "say which PostgreSQL would be used, and stop")
	flag.IntVar(&opts.Major, "major", 0, "wanted major `version` of PostgreSQL")
	flag.StringVar(&opts.LogFile, "log", "", "append the server's log to `file`")
	flag.StringVar(&opts.TempRoot, "root", "", "make temporary folders in `dir` instead of /tmp")
	flag.Func("set", "server setting as `name=value`, repeatable", func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("want name=value")
		}
		settings[k] = v
		return nil
	})
	flag.Parse()

	ctx := context.Background()
	if *find {
		return report(ctx, opts.Major)
	}
	code, err := pgserver.RunCommand(ctx, opts, flag.Args(), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgrun:", err)
		if code == 0 {
			code = exitOwn
		}
	}
	return code
}

func report(ctx context.Context, major int) int {
	if url := os.Getenv(pgserver.EnvURL); url != "" {
		fmt.Println("the server that", pgserver.EnvURL, "names")
		return 0
	}
	b, err := pgserver.Find(ctx, major)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgrun:", err)
		return 1
	}
	fmt.Printf("PostgreSQL %s in %s (%s)\n", b.Version, b.Dir, b.Source)
	return 0
}
