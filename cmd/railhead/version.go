package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/migrations"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, commit and schema of this binary",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := migrations.All(migrations.DefaultCell)
			if err != nil {
				return err
			}
			schema := all[len(all)-1].Version
			o := outputOf(cmd)
			if o.json {
				return o.document(map[string]any{
					"version": buildVersion(), "commit": buildCommit(), "schema": schema, "go": runtime.Version(),
					"platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			return o.text("railhead %s, commit %s, schema %d, %s, %s/%s\n", buildVersion(), buildCommit(), schema,
				runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
