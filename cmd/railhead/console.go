package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/rails/secret"
)

func consoleCommand() *cobra.Command {
	return &cobra.Command{
		Use: "console", Short: "Show cells and their payments to people, in a browser",
		Long: "Show the cell and its payments in a browser, on RAILHEAD_CONSOLE_ADDR: what is certain about the\n" +
			"money of a payment, what happens next, and what can be done. People log in by OpenID Connect, by client\n" +
			"certificates, or on this machine by a link that works once (RAILHEAD_CONSOLE_LINK); there is no default\n" +
			"password.\n\n" +
			"Connects with RAILHEAD_READER_URL as a member of railhead_readonly. It is read-only, unless\n" +
			"RAILHEAD_CONSOLE_OPERATE is true: then people with the role operate act with RAILHEAD_OPERATOR_URL, and the\n" +
			"operator log has that login and the person.\n\n" +
			"With RAILHEAD_CELLS it shows several cells, each with connection strings of its own, such as\n" +
			"RAILHEAD_READER_URL_WEST.",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), "console") },
	}
}

// consoleConns bounds the connections of each of the two logins of the console to a cell.
const consoleConns = 8

// newConsole creates the console of the cells that the process shows.
func newConsole(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (service.Service, func(), error) {
	logins, link, err := s.consoleLogins()
	if err != nil {
		return nil, nil, usage(err)
	}
	if s.Cells != "" && s.ConsoleReports != "" {
		return nil, nil, usage(errors.New("RAILHEAD_CONSOLE_REPORTS is the folder of one cell: with RAILHEAD_CELLS name " +
			"one for each, such as RAILHEAD_CONSOLE_REPORTS_WEST"))
	}
	files := service.TLSFiles{Certificate: s.ConsoleCertFile, Key: s.ConsoleKeyFile, ClientCA: s.ConsoleClientCAFile}
	certificates, err := tlsOf("console", files, set, log)
	if err != nil {
		return nil, nil, usage(err)
	}
	each, err := s.cells()
	if err != nil {
		return nil, nil, err
	}
	var shown []console.Cell
	var ends []func()
	end := func() {
		for _, end := range ends {
			end()
		}
	}
	for _, cell := range each {
		one, closeOne, err := cell.consoleCell(ctx, log)
		if err != nil {
			end()
			return nil, nil, err
		}
		shown, ends = append(shown, one), append(ends, closeOne)
	}
	one, err := s.consoleOf(shown, logins, link, certificates, log)
	if err != nil {
		end()
		return nil, nil, usage(err)
	}
	return one, end, nil
}

// consoleCell is a cell with a login for reading, and one for acts if the console has any. Nothing connects
// before it is read: one that is away keeps no other from being shown.
func (s settings) consoleCell(ctx context.Context, log *slog.Logger) (console.Cell, func(), error) {
	url, err := s.url("RAILHEAD_READER_URL", s.ReaderURL)
	if err != nil {
		return console.Cell{}, nil, err
	}
	config := ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-console", MaxConns: consoleConns,
		Tracer: s.traces.Postgres(), Log: log}
	reading, err := reader.Open(ctx, config)
	if err != nil {
		return console.Cell{}, nil, usage(fmt.Errorf("%s: %w", s.variable("RAILHEAD_READER_URL"), err))
	}
	// A nil Operator, and not a nil *operator.Operator, is a read-only console.
	cell := console.Cell{Setting: s.Setting, Schema: s.Cell, Reader: reading, ReportsFolder: s.ConsoleReports,
		DatabaseSizeLimit: s.DatabaseSizeLimit, Administrators: listOf(s.Administrators)}
	if !s.ConsoleOperate {
		return cell, reading.Close, nil
	}
	if config.URL, err = s.url("RAILHEAD_OPERATOR_URL", s.OperatorURL); err != nil {
		reading.Close()
		return console.Cell{}, nil, err
	}
	acting, err := operator.Open(ctx, config)
	if err != nil {
		reading.Close()
		return console.Cell{}, nil, usage(fmt.Errorf("%s: %w", s.variable("RAILHEAD_OPERATOR_URL"), err))
	}
	cell.Operator = acting
	return cell, func() { acting.Close(); reading.Close() }, nil
}

// consoleOf is the console of cells: without RAILHEAD_CELLS of the only one.
func (s settings) consoleOf(
	cells []console.Cell, logins []console.Login, link *console.Link, certificates *service.TLS, log *slog.Logger,
) (service.Service, error) {
	listen := func() (net.Listener, error) {
		return listen("RAILHEAD_CONSOLE_ADDR", s.ConsoleAddr, s.ConsoleFile)
	}
	announce := func(address string) error {
		if link == nil {
			return nil
		}
		return s.showLink(link.Address(address))
	}
	config := console.Config{
		Version: buildVersion(), PublicURL: s.ConsolePublicURL, Announce: announce, TraceURL: s.ConsoleTraceURL,
		TLS: certificates,
	}
	if s.Cells != "" {
		site, err := console.NewSite(config, logins, cells, listen, log)
		return consoleService{site, certificates}, err
	}
	only := cells[0]
	config.Administrators = only.Administrators
	config.Cell, config.ReportsFolder, config.DatabaseSizeLimit = only.Schema, only.ReportsFolder, only.DatabaseSizeLimit
	one, err := console.New(config, logins, only.Reader, only.Operator, listen, log)
	return consoleService{one, certificates}, err
}

// consoleService calls an address that others reach a fault of the settings, and says what is at fault with the files
// of TLS.
type consoleService struct {
	service.Service
	tls *service.TLS
}

func (c consoleService) Ready() error {
	return alsoOf(c.tls, c.Service.Ready())
}

func (c consoleService) Run(ctx context.Context) error {
	err := c.Service.Run(ctx)
	if errors.Is(err, console.ErrExposed) {
		return usage(err)
	}
	return err
}

// consoleLogins are the ways to log in that the environment configures; the link among them, or nil.
func (s settings) consoleLogins() (logins []console.Login, link *console.Link, err error) {
	roles := console.Roles{Read: listOf(s.ConsoleReaders), Operate: listOf(s.ConsoleOperators)}
	var faults []error
	if err := roles.Check(); err != nil {
		faults = append(faults, fmt.Errorf("RAILHEAD_CONSOLE_READERS, RAILHEAD_CONSOLE_OPERATORS: %w", err))
	}
	if (s.ConsoleCertFile == "") != (s.ConsoleKeyFile == "") || s.ConsoleClientCAFile != "" && s.ConsoleKeyFile == "" {
		faults = append(faults, errors.New("RAILHEAD_CONSOLE_CERT_FILE and RAILHEAD_CONSOLE_KEY_FILE go together, and "+
			"RAILHEAD_CONSOLE_CLIENT_CA_FILE with them"))
	}
	if s.ConsoleOIDCIssuer != "" {
		secret, err := consoleSecret(s.ConsoleOIDCSecret)
		faults = append(faults, err)
		login, err := console.NewOIDC(console.OIDCConfig{
			Issuer: s.ConsoleOIDCIssuer, ClientID: s.ConsoleOIDCClient, ClientSecret: secret, PublicURL: s.ConsolePublicURL,
			Claim: s.ConsoleOIDCClaim, Scopes: listOf(s.ConsoleOIDCScopes), Roles: roles,
		})
		if faults = append(faults, err); err == nil {
			logins = append(logins, login)
		}
	}
	if s.ConsoleClientCAFile != "" {
		logins = append(logins, console.NewCertificates(roles))
	}
	switch role := console.Role(s.ConsoleLink); role {
	case "":
	case console.Read, console.Operate:
		link = console.NewLink(role)
		logins = append(logins, link)
	default:
		faults = append(faults, errors.New("RAILHEAD_CONSOLE_LINK is the role of the one-time link: read or operate"))
	}
	return logins, link, errors.Join(faults...)
}

// consoleSecret resolves where a secret is; no reference is no secret.
func consoleSecret(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	var ref secret.Ref
	if err := ref.UnmarshalText([]byte(text)); err != nil {
		return "", fmt.Errorf("RAILHEAD_CONSOLE_OIDC_CLIENT_SECRET: %w", err)
	}
	value, err := ref.Resolve(os.Getenv)
	if err != nil {
		return "", fmt.Errorf("RAILHEAD_CONSOLE_OIDC_CLIENT_SECRET: %w", err)
	}
	return value.Reveal(), nil
}

// showLink prints the one-time link, or writes it to a file that its owner alone can read. It is not
// logged: who reads the log does not log in.
func (s settings) showLink(address string) error {
	if s.ConsoleLinkFile == "" {
		_, err := fmt.Fprintf(os.Stdout, "console: %s\n", address)
		return wrote(err)
	}
	draft := s.ConsoleLinkFile + ".new"
	if err := os.WriteFile(draft, []byte(address+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing RAILHEAD_CONSOLE_LINK_FILE: %w", err)
	}
	return os.Rename(draft, s.ConsoleLinkFile)
}
