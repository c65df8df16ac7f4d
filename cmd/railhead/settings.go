package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/tracing/export"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

// settings are the values of the environment. Each component has a connection
// string of its own, because each has a login of its own; DATABASE_URL is the default
// of each. Those with the tag cell can be set for one of several cells: see cells.
type settings struct {
	// Cells are the settings of the cells that the process works for, such as EAST,WEST; empty: one cell,
	// whose variables have nothing at their ends.
	Cells   string `env:"RAILHEAD_CELLS"`
	Setting string // the name at the end of this cell's variables; empty: none

	Cell        string `env:"RAILHEAD_CELL" envDefault:"railhead" cell:"may"`
	DatabaseURL string `env:"DATABASE_URL" cell:"own"`
	// migrate, roles, token: a superuser, or an administrator
	AdminURL string `env:"RAILHEAD_ADMIN_URL" cell:"own"`
	// prove, roles, console: the logins without superuser that may become the owner
	Administrators string `env:"RAILHEAD_ADMINISTRATORS" cell:"may"`
	IngestURL      string `env:"RAILHEAD_INGEST_URL" cell:"own"`    // enqueue: a member of railhead_ingest
	RelayerURL     string `env:"RAILHEAD_RELAYER_URL" cell:"own"`   // a member of railhead_executor
	ReaperURL      string `env:"RAILHEAD_REAPER_URL" cell:"own"`    // a member of railhead_executor
	OperatorURL    string `env:"RAILHEAD_OPERATOR_URL" cell:"own"`  // a member of railhead_operator
	ReaderURL      string `env:"RAILHEAD_READER_URL" cell:"own"`    // payment show, status, console: a member of railhead_readonly
	CallbacksURL   string `env:"RAILHEAD_CALLBACKS_URL" cell:"own"` // a member of railhead_callbacks
	APIURL         string `env:"RAILHEAD_API_URL" cell:"own"`       // a member of railhead_api
	EventsURL      string `env:"RAILHEAD_EVENTS_URL" cell:"own"`    // a member of railhead_events
	AuditorURL     string `env:"RAILHEAD_AUDITOR_URL" cell:"own"`   // prove: a member of railhead_auditor
	// the gauges of /metrics; by default the relayer's or reaper's own, and none for callbacks, api, events and console
	MetricsURL string `env:"RAILHEAD_METRICS_URL" cell:"own"`
	// ListenURL is a direct session for LISTEN where RelayerURL is pooled.
	ListenURL string `env:"RAILHEAD_LISTEN_URL" cell:"own"`

	RailsFile  string `env:"RAILHEAD_RAILS_FILE" envDefault:"rails.yaml" cell:"may"`
	EventsFile string `env:"RAILHEAD_EVENTS_FILE" envDefault:"events.yaml"`
	// stores the memory of a component for its next start; empty: none is stored
	StateDir string `env:"RAILHEAD_STATE_DIR"`
	HTTPAddr string `env:"RAILHEAD_HTTP_ADDR" envDefault:"127.0.0.1:0"`
	HTTPFile string `env:"RAILHEAD_HTTP_ADDR_FILE"` // the bound address is written here
	// The endpoint for callbacks, separate from health: rails reach it.
	CallbacksAddr  string `env:"RAILHEAD_CALLBACKS_ADDR" envDefault:"127.0.0.1:0"`
	CallbacksFile  string `env:"RAILHEAD_CALLBACKS_ADDR_FILE"` // the bound address is written here
	CallbacksConns int    `env:"RAILHEAD_CALLBACKS_CONNECTIONS" envDefault:"500"`
	// The HTTP API, separate from health: callers reach it.
	APIAddr           string `env:"RAILHEAD_API_ADDR" envDefault:"127.0.0.1:0"`
	APIFile           string `env:"RAILHEAD_API_ADDR_FILE"` // the bound address is written here
	APICertFile       string `env:"RAILHEAD_API_CERT_FILE"`
	APIKeyFile        string `env:"RAILHEAD_API_KEY_FILE"`
	APIClientCAFile   string `env:"RAILHEAD_API_CLIENT_CA_FILE"`
	APIConns          int32  `env:"RAILHEAD_API_DATABASE_CONNECTIONS" envDefault:"8"`
	APIConnectionsMax int    `env:"RAILHEAD_API_CONNECTIONS" envDefault:"1000"`
	APIStreamsMax     int    `env:"RAILHEAD_API_STREAMS" envDefault:"500"`
	APIOrigins        string `env:"RAILHEAD_API_ORIGINS"`
	APIEventKeys      string `env:"RAILHEAD_API_EVENT_KEYS"`

	// The console, which people reach.
	ConsoleAddr         string `env:"RAILHEAD_CONSOLE_ADDR" envDefault:"127.0.0.1:0"`
	ConsoleFile         string `env:"RAILHEAD_CONSOLE_ADDR_FILE"` // the bound address is written here
	ConsolePublicURL    string `env:"RAILHEAD_CONSOLE_PUBLIC_URL"`
	ConsoleTraceURL     string `env:"RAILHEAD_CONSOLE_TRACE_URL"`
	ConsoleOperate      bool   `env:"RAILHEAD_CONSOLE_OPERATE"`
	ConsoleCertFile     string `env:"RAILHEAD_CONSOLE_CERT_FILE"`
	ConsoleKeyFile      string `env:"RAILHEAD_CONSOLE_KEY_FILE"`
	ConsoleClientCAFile string `env:"RAILHEAD_CONSOLE_CLIENT_CA_FILE"`
	ConsoleReaders      string `env:"RAILHEAD_CONSOLE_READERS"`
	ConsoleOperators    string `env:"RAILHEAD_CONSOLE_OPERATORS"`
	ConsoleOIDCIssuer   string `env:"RAILHEAD_CONSOLE_OIDC_ISSUER"`
	ConsoleOIDCClient   string `env:"RAILHEAD_CONSOLE_OIDC_CLIENT_ID"`
	ConsoleOIDCSecret   string `env:"RAILHEAD_CONSOLE_OIDC_CLIENT_SECRET"`
	ConsoleOIDCClaim    string `env:"RAILHEAD_CONSOLE_OIDC_CLAIM" envDefault:"groups"`
	ConsoleOIDCScopes   string `env:"RAILHEAD_CONSOLE_OIDC_SCOPES"`
	ConsoleLink         string `env:"RAILHEAD_CONSOLE_LINK"`
	ConsoleLinkFile     string `env:"RAILHEAD_CONSOLE_LINK_FILE"` // the one-time link is written here
	ConsoleReports      string `env:"RAILHEAD_CONSOLE_REPORTS" cell:"own"`

	LogLevel  string `env:"RAILHEAD_LOG_LEVEL" envDefault:"info"`
	LogFormat string `env:"RAILHEAD_LOG_FORMAT"` // text or json; by default by terminal
	WorkerID  string `env:"RAILHEAD_WORKER_ID"`  // see workerID

	Poll              time.Duration `env:"RAILHEAD_POLL" envDefault:"500ms" cell:"may"`
	Coalesce          time.Duration `env:"RAILHEAD_COALESCE" envDefault:"10ms" cell:"may"`
	ClaimMax          int           `env:"RAILHEAD_CLAIM_MAX" envDefault:"500" cell:"may"`
	HeartbeatEvery    time.Duration `env:"RAILHEAD_HEARTBEAT_EVERY" envDefault:"2s" cell:"may"`
	RefreshEvery      time.Duration `env:"RAILHEAD_REFRESH_EVERY" envDefault:"5s" cell:"may"`
	NotifierTestEvery time.Duration `env:"RAILHEAD_NOTIFIER_TEST_EVERY" envDefault:"1m" cell:"may"`
	ReapEvery         time.Duration `env:"RAILHEAD_REAP_EVERY" envDefault:"5s" cell:"may"`
	ReapGrace         time.Duration `env:"RAILHEAD_REAP_GRACE" envDefault:"20s" cell:"may"`
	StoreTimeout      time.Duration `env:"RAILHEAD_STORE_TIMEOUT" envDefault:"10s" cell:"may"`
	MetricsEvery      time.Duration `env:"RAILHEAD_METRICS_EVERY" envDefault:"5s" cell:"may"`
	// The time budget is a setting of the cell. Values that are set here must be equal to it.
	ClaimTimeout   time.Duration `env:"RAILHEAD_CLAIM_TIMEOUT" cell:"may"`
	StartWithin    time.Duration `env:"RAILHEAD_START_WITHIN" cell:"may"`
	RecordWithin   time.Duration `env:"RAILHEAD_RECORD_WITHIN" cell:"may"`
	Drain          time.Duration `env:"RAILHEAD_DRAIN" cell:"may"`
	HeartbeatStale time.Duration `env:"RAILHEAD_HEARTBEAT_STALE" cell:"may"`
	// DatabaseSizeLimit is what the disk can hold, in bytes; 0: not known.
	DatabaseSizeLimit int64 `env:"RAILHEAD_DATABASE_SIZE_LIMIT" cell:"may"`

	traces *export.Traces // where a component's spans go
	rails  *inherited     // what its rails go on with
	logTo  io.Writer      // where a service logs
	// together is set if other kinds of components work in the same process.
	together bool
}

// readSettings reads the environment and returns every fault of it at once.
func readSettings() (settings, error) {
	var s settings
	if err := env.Parse(&s); err != nil {
		return settings{}, usage(fmt.Errorf("reading the environment: %w", byVariable(err)))
	}
	if err := migrations.CheckCell(s.Cell); err != nil {
		return settings{}, usage(fmt.Errorf("RAILHEAD_CELL: %w", err))
	}
	if len(s.WorkerID) > workerIDMost {
		return settings{}, usage(fmt.Errorf("RAILHEAD_WORKER_ID has %d bytes: use at most %d", len(s.WorkerID), workerIDMost))
	}
	return s, nil
}

// workerIDMost leaves room in a name of 200 bytes for kind, cell and number: see workerID.
const workerIDMost = 120

// asserted is the part of the time budget that this environment sets.
func (s settings) asserted() outbox.TimeBudget {
	return outbox.TimeBudget{
		ClaimTimeout: s.ClaimTimeout, StartWithin: s.StartWithin, RecordWithin: s.RecordWithin, Drain: s.Drain,
		HeartbeatStale: s.HeartbeatStale,
	}
}

// heart is the heartbeat of a service of a kind; otherLogin is the advice if the database denies it.
func (s settings) heart(kind, otherLogin string) service.HeartConfig {
	return service.HeartConfig{
		Name: s.WorkerID, Kind: kind, Host: hostName(), Version: buildVersion(), Every: s.HeartbeatEvery,
		Within:   s.StoreTimeout,
		Asserted: s.asserted(), OtherLogin: otherLogin,
	}
}

// byVariable names the variables that can't be read instead of their fields.
func byVariable(err error) error {
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return err
	}
	var faults []error
	for _, fault := range all.Errors {
		if parse, ok := errors.AsType[env.ParseError](fault); ok {
			if field, ok := reflect.TypeFor[settings]().FieldByName(parse.Name); ok {
				fault = fmt.Errorf("%s: %w", field.Tag.Get("env"), parse.Err)
			}
		}
		faults = append(faults, fault)
	}
	return errors.Join(faults...)
}

// errNoURL reports that no variable names a database.
var errNoURL = errors.New("no database is named")

// url picks a component's connection string.
func (s settings) url(variable, own string) (string, error) {
	url := cmp.Or(own, s.DatabaseURL)
	if url == "" && s.Setting != "" {
		return "", usage(fmt.Errorf("%w for cell %s: set %s", errNoURL, s.Setting, s.variable(variable)))
	}
	if url == "" && os.Getenv("PGHOST") == "" && os.Getenv("PGSERVICE") == "" {
		return "", usage(fmt.Errorf("%w: set %s, or DATABASE_URL for all components", errNoURL, variable))
	}
	return url, nil
}
