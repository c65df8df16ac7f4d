package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/migrations"
)

func rolesCommand() *cobra.Command {
	return group("roles", "Create the roles of the matrix and their grants, or compare them with the catalog",
		rolesApplyCommand(), rolesDiffCommand(), rolesSQLCommand(), rolesLoginCommand())
}

func rolesApplyCommand() *cobra.Command {
	dryRun := false
	var administrators []string
	command := &cobra.Command{
		Use: "apply", Short: "Create the roles, and make every grant agree with the matrix",
		Long: "Create the roles, and make every grant agree with the matrix: grants that it does not name are revoked.\n\n" +
			"Connects with RAILHEAD_ADMIN_URL as a superuser, or as an administrator: a login with CREATEROLE that may\n" +
			"create a schema in the database. An administrator becomes a member of railhead_owner, and stays one. As any\n" +
			"other login it does nothing, and says what that lacks. Each other membership in railhead_owner, or of one\n" +
			"role in another, is revoked and printed. In a new database it only creates the roles, because there is\n" +
			"nothing to grant yet: run it, then railhead migrate up, then it again. It refuses a cell that a newer build\n" +
			"has migrated.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAdmin(cmd.Context(), func(conn *pgx.Conn, cell string) error {
				if dryRun {
					found, err := diffAs(cmd.Context(), conn, cell, administrators)
					if err != nil {
						return err
					}
					return writeDifferences(outputOf(cmd), found)
				}
				return applyRoles(cmd, conn, cell, administrators)
			})
		},
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "show what differs, change nothing")
	administratorFlag(command.Flags(), &administrators)
	return command
}

// administratorFlag adds the flag that names administrators who are no superusers.
func administratorFlag(set *pflag.FlagSet, administrators *[]string) {
	set.StringSliceVar(administrators, "administrator", nil,
		"a login without superuser that may become railhead_owner; repeated, with those of RAILHEAD_ADMINISTRATORS")
}

// administratorsOf are the administrators of the flag and of the environment.
func administratorsOf(flag []string) ([]string, error) {
	s, err := readSettings()
	if err != nil {
		return nil, err
	}
	return slices.Concat(flag, listOf(s.Administrators)), nil
}

func applyRoles(cmd *cobra.Command, conn *pgx.Conn, cell string, flag []string) error {
	ctx, says := cmd.Context(), cmd.ErrOrStderr()
	self, err := acl.Administrator(ctx, conn, cell)
	if errors.Is(err, acl.ErrLacks) {
		return withCode(exitDenied, fmt.Errorf("roles apply has done nothing: %w", err))
	}
	if err != nil {
		return err
	}
	administrators, err := administratorsOf(flag)
	if err != nil {
		return err
	}
	// What a newer build granted on its functions is no business of this one.
	if err := migrations.RefuseNewer(ctx, conn, cell); err != nil {
		return err
	}
	if err := acl.EnsureRoles(ctx, conn); err != nil {
		return err
	}
	before, err := diffAs(ctx, conn, cell, flag)
	if err != nil && !errors.Is(err, acl.ErrNoCell) {
		return err
	}
	err = acl.Apply(ctx, conn, cell, administrators...)
	switch {
	case errors.Is(err, acl.ErrNoCell):
		fmt.Fprintf(says, "the roles exist; cell %s has no schema yet: run railhead migrate up, then "+
			"railhead roles apply again\n", cell)
	case err != nil:
		return err
	default:
		for _, line := range revokedOf(before) {
			fmt.Fprintf(says, "revoked: %s\n", line)
		}
		fmt.Fprintf(says, "roles and grants of cell %s agree with the matrix\n", cell)
	}
	if self != "" {
		fmt.Fprintf(says, "%s is an administrator: it may become %s, and railhead prove fails unless --administrator or "+
			"RAILHEAD_ADMINISTRATORS names it\n", oneLine(self), migrations.OwnerRole)
	}
	return nil
}

// revokedOf are the memberships that a difference was about, each once: several logins may have granted it.
func revokedOf(before []acl.Difference) []string {
	var lines []string
	for _, d := range before {
		if d.Code == acl.ExtraMember {
			lines = append(lines, d.Detail)
		}
	}
	return slices.Compact(lines)
}

// diffAs compares the catalog with the matrix. The login of an administrator is one of those that are expected.
func diffAs(ctx context.Context, conn *pgx.Conn, cell string, flag []string) ([]acl.Difference, error) {
	administrators, err := administratorsOf(flag)
	if err != nil {
		return nil, err
	}
	own, err := acl.OwnWays(ctx, conn)
	if err != nil {
		return nil, err
	}
	return acl.Diff(ctx, conn, cell, slices.Concat(administrators, own)...)
}

func rolesDiffCommand() *cobra.Command {
	var administrators []string
	command := &cobra.Command{
		Use: "diff", Short: "Compare the live catalog with the matrix; exit code 8 if they differ",
		Long: "Compare the live catalog with the matrix. Every difference is a line; any of them makes the exit code 8.\n" +
			"Connects with RAILHEAD_ADMIN_URL, as any login that may read the catalog. It changes nothing.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withAdmin(cmd.Context(), func(conn *pgx.Conn, cell string) error {
				found, err := diffAs(cmd.Context(), conn, cell, administrators)
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
	administratorFlag(command.Flags(), &administrators)
	return command
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
	var administrators []string
	command := &cobra.Command{
		Use: "sql", Short: "Print the whole matrix as a script for a superuser",
		Long: "Print the whole matrix as one script that a superuser can read and run instead of railhead roles apply.\n" +
			"Administrators that are named stay members of railhead_owner. It needs no database.",
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
			named := slices.Concat(administrators, listOf(s.Administrators))
			return outputOf(cmd).text("%s", matrix.SQL(s.Cell, named...))
		},
	}
	administratorFlag(command.Flags(), &administrators)
	return command
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
			"verifier. Connects with RAILHEAD_ADMIN_URL as a superuser or an administrator.",
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
