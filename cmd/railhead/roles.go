package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/migrations"
)

func rolesCommand() *cobra.Command {
	return group("roles", "Create the roles of the matrix and their grants, or compare them with the catalog",
		rolesApplyCommand(), rolesDiffCommand(), rolesSQLCommand(), rolesLoginCommand())
}

func rolesApplyCommand() *cobra.Command {
	dryRun := false
	command := &cobra.Command{
		Use: "apply", Short: "Create the roles, and make every grant agree with the matrix",
		Long: "Create the roles, and make every grant agree with the matrix: grants that it does not name are revoked.\n\n" +
			"Connects with RAILHEAD_ADMIN_URL as a superuser, and does nothing as any other login. Each membership that\n" +
			"it revokes, in railhead_owner or of one role in another, is printed. In a new database it only creates the\n" +
			"roles, because there is nothing to grant yet: run it, then railhead migrate up, then it again. It refuses a\n" +
			"cell that a newer build has migrated.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAdmin(cmd.Context(), func(conn *pgx.Conn, cell string) error {
				if dryRun {
					found, err := acl.Diff(cmd.Context(), conn, cell)
					if err != nil {
						return err
					}
					return writeDifferences(outputOf(cmd), found)
				}
				// It would end with the memberships of the login itself, without which the next one fails.
				if conn.PgConn().ParameterStatus("is_superuser") == "off" {
					return withCode(exitDenied, fmt.Errorf("the login %s is not a superuser: roles apply gives and revokes what "+
						"only a superuser can, and has done nothing\n%s", conn.Config().User, superuserNeeded))
				}
				// What a newer build granted on its functions is no business of this one.
				if err := migrations.RefuseNewer(cmd.Context(), conn, cell); err != nil {
					return err
				}
				if err := acl.EnsureRoles(cmd.Context(), conn); err != nil {
					return err
				}
				before, err := acl.Diff(cmd.Context(), conn, cell)
				if err != nil && !errors.Is(err, acl.ErrNoCell) {
					return err
				}
				err = acl.Apply(cmd.Context(), conn, cell)
				if errors.Is(err, acl.ErrNoCell) {
					fmt.Fprintf(cmd.ErrOrStderr(), "the roles exist; cell %s has no schema yet: run railhead migrate up, then "+
						"railhead roles apply again\n", cell)
					return nil
				}
				if err != nil {
					return err
				}
				for _, d := range before {
					if d.Code == acl.ExtraMember {
						fmt.Fprintf(cmd.ErrOrStderr(), "revoked: %s\n", d.Detail)
					}
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "roles and grants of cell %s agree with the matrix\n", cell)
				return nil
			})
		},
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "show what differs, change nothing")
	return command
}

func rolesDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff", Short: "Compare the live catalog with the matrix; exit code 8 if they differ",
		Long: "Compare the live catalog with the matrix. Every difference is a line; any of them makes the exit code 8.\n" +
			"Connects with RAILHEAD_ADMIN_URL, as any login that may read the catalog. It changes nothing.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAdmin(cmd.Context(), func(conn *pgx.Conn, cell string) error {
				found, err := acl.Diff(cmd.Context(), conn, cell)
				if err != nil {
					return err
				}
				if err := writeDifferences(outputOf(cmd), found); err != nil {
					return err
				}
				if len(found) > 0 {
					return withCode(exitProof, fmt.Errorf("the catalog differs from the matrix in %d places: railhead roles apply "+
						"repairs them", len(found)))
				}
				return nil
			})
		},
	}
}

func writeDifferences(o output, found []acl.Difference) error {
	if o.json {
		type difference struct {
			Code      string `json:"code"`
			Object    string `json:"object,omitempty"`
			Grantee   string `json:"grantee,omitempty"`
			Privilege string `json:"privilege,omitempty"`
			Detail    string `json:"detail"`
		}
		list := make([]difference, 0, len(found))
		for _, d := range found {
			object := ""
			if d.Object != (acl.Object{}) {
				object = d.Object.String()
			}
			list = append(list, difference{string(d.Code), object, d.Grantee, d.Privilege, d.Detail})
		}
		return o.document(list)
	}
	if len(found) == 0 {
		return nil
	}
	rows := make([][]cell, 0, len(found))
	for _, d := range found {
		rows = append(rows, []cell{{string(d.Code), alarm}, {text: d.Detail}})
	}
	return o.table([]string{"CODE", "DETAIL"}, rows)
}

func rolesSQLCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sql", Short: "Print the whole matrix as a script for a database administrator",
		Long: "Print the whole matrix as one script that can be read and run instead of railhead roles apply.\n" +
			"It needs no database.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSettings()
			if err != nil {
				return err
			}
			matrix, err := acl.Load()
			if err != nil {
				return err
			}
			return outputOf(cmd).text("%s", matrix.SQL(s.Cell))
		},
	}
}

// passwordBytesMax bounds a password file.
const passwordBytesMax = 1024

func rolesLoginCommand() *cobra.Command {
	var role, variable, file string
	none := false
	command := &cobra.Command{
		Use: "login NAME", Short: "Create a login that is a member of exactly one role",
		Long: "Create a login that is a member of exactly one role of the matrix, or change an existing one\n" +
			"accordingly.\n\n" +
			"The password comes from a variable or a file, never from the command line, and reaches the server as a\n" +
			"verifier. Connects with RAILHEAD_ADMIN_URL as a superuser.",
		Example: "  railhead roles login ingest_api --role railhead_ingest --password-env INGEST_PASSWORD\n" +
			"  railhead roles login metrics --role railhead_readonly --no-password",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := passwordFrom(cmd.InOrStdin(), variable, file)
			if err != nil {
				return err
			}
			return withAdmin(cmd.Context(), func(conn *pgx.Conn, _ string) error {
				if err := acl.EnsureLogin(cmd.Context(), conn, args[0], role, password); err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "login %s is a member of %s and of no other role\n", args[0], role)
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&role, "role", "", "the role, such as railhead_ingest")
	flags.StringVar(&variable, "password-env", "", "the variable that holds the password")
	flags.StringVar(&file, "password-file", "", "the file whose first line is the password; - is standard input")
	flags.BoolVar(&none, "no-password", false,
		"no password, for servers that authenticate clients by other means; an existing one is removed")
	must(command.MarkFlagRequired("role"))
	command.MarkFlagsOneRequired("password-env", "password-file", "no-password")
	command.MarkFlagsMutuallyExclusive("password-env", "password-file", "no-password")
	return command
}

// passwordFrom reads the password; it is "" if neither source is named. It refuses an
// empty one, which would remove the login's password.
func passwordFrom(stdin io.Reader, variable, file string) (string, error) {
	var password string
	switch {
	case variable != "":
		password = os.Getenv(variable)
	case file != "":
		from := stdin
		if file != "-" {
			opened, err := os.Open(file)
			if err != nil {
				return "", fmt.Errorf("reading the password: %w", err)
			}
			defer opened.Close()
			from = opened
		}
		text, err := io.ReadAll(io.LimitReader(from, passwordBytesMax+1))
		if err != nil {
			return "", fmt.Errorf("reading the password: %w", err)
		}
		if len(text) > passwordBytesMax {
			return "", usage(fmt.Errorf("the password file is longer than %d bytes", passwordBytesMax))
		}
		password, _, _ = strings.Cut(string(text), "\n")
		password = strings.TrimSuffix(password, "\r")
	default:
		return "", nil
	}
	if password == "" {
		return "", usage(errors.New("the password is empty: use --no-password for a login without one"))
	}
	return password, nil
}

// must panics at a mistake in the command tree itself, which any test finds.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
