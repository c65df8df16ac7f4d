// Command next writes the next numbered migration of a checkout: the whole text of every
// function and view that changed since the last one. make migration runs it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/railhead-pay/railhead/migrations"
)

func main() {
	folder := flag.String("folder", "migrations", "the folder of package migrations in a checkout")
	name := flag.String("name", "", "what the migration is for, in lower-case words with underscores between")
	serves := flag.Int64("serves", 0,
		"the oldest migration whose binaries work on a cell with the new one; 0: the same as before")
	bare := flag.Bool("bare", false, "write it although no function and no view changed: for statements of tables")
	flag.Parse()
	file, err := migrations.Next(*folder, *name, *serves, *bare)
	if err != nil {
		fmt.Fprintln(os.Stderr, "next:", err)
		os.Exit(1)
	}
	fmt.Printf("wrote %s/sql/%s: read it, add statements of tables if there are any, "+
		"then make test PKG=./migrations ARGS=-update\n", *folder, file)
}
