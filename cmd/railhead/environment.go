package main

import "github.com/spf13/cobra"

// environmentTopic is railhead help environment.
func environmentTopic() *cobra.Command {
	return &cobra.Command{
		Use: "environment", Short: "Which variables say where the database is",
		Long: `Each command connects with a login of its own, because each has a role of its own:

  RAILHEAD_ADMIN_URL     migrate, roles                  a superuser
  RAILHEAD_INGEST_URL    enqueue                         a member of railhead_ingest
  RAILHEAD_OPERATOR_URL  every act of an operator        a member of railhead_operator
  RAILHEAD_READER_URL    payment, status, lists           a member of railhead_readonly
  RAILHEAD_AUDITOR_URL   prove                           a member of railhead_auditor
  RAILHEAD_RELAYER_URL   relayer                         a member of railhead_executor
  RAILHEAD_REAPER_URL    reaper                          a member of railhead_executor
  RAILHEAD_CALLBACKS_URL callbacks                      a member of railhead_callbacks
  RAILHEAD_METRICS_URL   the gauges of /metrics          a member of railhead_readonly; else the relayer's or reaper's own
  DATABASE_URL           whichever of these is not set

A value is a connection string of PostgreSQL, as a URL or as words. What it lacks comes from PGHOST, PGUSER,
PGPASSWORD, PGPASSFILE and the other variables of libpq.

  RAILHEAD_CELL          the schema of the installation (railhead); --cell wins over it
  RAILHEAD_RAILS_FILE    the rails of a relayer (rails.yaml)
  NO_COLOR               no colours, whatever the terminal`,
	}
}
