package proofs

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/payment"
)

// The logins of proofs: members of one of these roles, or a superuser.
const (
	asAuditor   = "railhead_auditor"
	asControl   = "railhead_control"
	asSuperuser = "superuser"
)

// script returns the statements that show a proof's violations without this program:
// psql runs them as printed, and the last one returns a row for each violation.
type script func(matrix acl.Matrix, o Options) (string, error)

// SQL returns the proof as psql runs it, in one transaction that is rolled back:
// its last statement returns the violations, one for each row, in the words of a report.
// No row means that the proof holds. It uses the options Cell, Logins,
// Administrators and InFlightMax, and reads all instructions. An error means that Cell is no valid name.
func (p Proof) SQL(o Options) (string, error) {
	if err := migrations.CheckCell(o.Cell); err != nil {
		return "", err
	}
	matrix, err := acl.Load()
	if err != nil {
		return "", err
	}
	return p.scripted(matrix, o.withDefaults())
}

func (p Proof) scripted(matrix acl.Matrix, o Options) (string, error) {
	body, err := p.script(matrix, o)
	if err != nil {
		return "", fmt.Errorf("writing the SQL of %s: %w", p.Name, err)
	}
	isolation, mode, timeout := "REPEATABLE READ", "ONLY", lockTimeout
	if p.Tries { // some functions refuse what would read a revoked token
		isolation, mode, timeout = "READ COMMITTED", "WRITE", tryTimeout
	}
	begin := strings.NewReplacer("{isolation}", isolation, "{mode}", mode, "{lock_timeout}",
		timeout).Replace(statement("sql/parts/begin.sql", o.Cell))
	return begin + strings.TrimRight(body, "\n") + ";\nROLLBACK;\n", nil
}

// violations is a script from a file under sql/violations.
func violations(name string) script {
	return func(_ acl.Matrix, o Options) (string, error) {
		return strings.NewReplacer(
			"{archive}", part("archive", o.Cell), "{horizon}", part("horizon", o.Cell),
			"{transitions}", pairs(payment.MayFollow), "{resolutions}", pairs(payment.MayResolve),
			"{claim_states}", states(payment.State.IsClaim), "{answering_states}", states(payment.State.AnswersClaim),
			"{waiting_states}", states(payment.State.Waits), "{terminal_states}", states(payment.State.IsTerminal),
			"{ended_states}", states(payment.State.HasEnded), "{unpaid_reasons}", list([]payment.DeadReason{payment.DeadFailed,
				payment.DeadExpired}),
			"{proves_execution}", list(provesExecution), "{proves_failure}", list(provesFailure),
			"{proves_retry}", list(provesRetry), "{settles_earlier}", list(settlesEarlier),
			"{in_flight_seconds}", inFlightSeconds(o),
		).Replace(statement("sql/violations/"+name+".sql", o.Cell)), nil
	}
}

// inFlightSeconds is the age of a claim that is still in flight, as an expression of SQL.
func inFlightSeconds(o Options) string {
	if o.InFlightMax > 0 {
		return strconv.FormatFloat(o.InFlightMax.Seconds(), 'f', -1, 64)
	}
	return "(\n" + inlined(statement("sql/in_flight.sql", o.Cell)) + ")"
}

// callers is the statement of the proof of that name, over one page that holds all instructions.
func callers(_ acl.Matrix, o Options) (string, error) {
	first, last := payment.ID{}, payment.ID(lastOfAll)
	return "SELECT format('%s: %s', c.outbox_id, c.violation) AS violation FROM (\n" +
		inlined(statement("sql/callers.sql", o.Cell), "'"+first.String()+"'", "'"+last.String()+"'") +
		"\n) c\nWHERE c.violation IS NOT NULL\n", nil
}

// part returns text that several files share.
func part(name, cell string) string {
	return strings.TrimRight(statement("sql/parts/"+name+".sql", cell), "\n")
}

// judgement is a script of a statement that returns its own findings, restricted to the
// violations. Its arguments are taken from the matrix.
func judgement(name string, args func(acl.Matrix) []string) script {
	return func(matrix acl.Matrix, o Options) (string, error) {
		var given []string
		if args != nil {
			given = args(matrix)
		}
		return "SELECT j.line AS violation FROM (\n" + inlined(statement("sql/"+name+".sql", o.Cell), given...) +
			"\n) j (what, line, n)\nWHERE j.what = 'offence'\n", nil
	}
}

// inlined returns a statement with its arguments in place, except in comments.
func inlined(text string, args ...string) string {
	lines := strings.Split(strings.TrimRight(text, "\n;"), "\n")
	for n, line := range lines {
		if strings.HasPrefix(line, "--") {
			continue
		}
		for i, arg := range args {
			line = strings.ReplaceAll(line, "$"+strconv.Itoa(i+1), arg)
		}
		lines[n] = line
	}
	return strings.Join(lines, "\n")
}

// roleArguments are the roles of the matrix and their owner.
func roleArguments(matrix acl.Matrix) []string {
	var names []string
	for _, role := range matrix.Roles {
		names = append(names, literal(role.Name))
	}
	return []string{"ARRAY[" + strings.Join(names, ", ") + "]", literal(matrix.Owner)}
}

// administrators are the administrators who are no superusers, as an array of SQL.
func administrators(o Options) string { return "ARRAY[" + list(o.Administrators) + "]::text[]" }

// administered is a judgement by the roles of the matrix, their owner and the administrators.
func administered(name string) script {
	return func(matrix acl.Matrix, o Options) (string, error) {
		return judgement(name, func(matrix acl.Matrix) []string {
			return append(roleArguments(matrix), administrators(o))
		})(matrix, o)
	}
}

// differences is a script of the comparison with the matrix, of some kinds.
func differences(codes ...acl.Code) script {
	return func(matrix acl.Matrix, o Options) (string, error) {
		compared := strings.TrimRight(matrix.DiffSQL(o.Cell, o.Administrators...), "\n")
		return "SELECT d.code || ': ' || d.detail AS violation FROM (\n" + compared +
			"\n) d\nWHERE d.code IN (" + list(codes) + ")\n", nil
	}
}

// memberships is the script of the proof members: direct and indirect memberships.
func memberships(matrix acl.Matrix, o Options) (string, error) {
	compared, err := differences(acl.ExtraMember)(matrix, o)
	if err != nil {
		return "", err
	}
	expected := "NULL"
	if len(o.Logins) > 0 {
		expected = "ARRAY[" + list(o.logins()) + "]"
	}
	walked, err := judgement("members", func(matrix acl.Matrix) []string {
		return append(roleArguments(matrix), expected, administrators(o))
	})(matrix, o)
	return compared + "UNION ALL\n" + walked, err
}

// schemaLines compares the schema with the lines that this build migrates to.
func schemaLines(_ acl.Matrix, o Options) (string, error) {
	schema, err := migrations.Schema(o.Cell)
	if err != nil {
		return "", err
	}
	all, err := migrations.All(o.Cell)
	if err != nil {
		return "", err
	}
	bodies, err := migrations.UUIDv7Bodies(o.Cell)
	if err != nil {
		return "", err
	}
	var lines, sums []string
	for _, line := range places(schema) {
		lines = append(lines, "("+literal(line)+")")
	}
	for _, body := range bodies {
		sum := md5.Sum([]byte(body))
		sums = append(sums, hex.EncodeToString(sum[:]))
	}
	return strings.NewReplacer(
		"{lines}", values(lines), "{dump}", inlined(migrations.DumpSQL(), literal(o.Cell)),
		"{version}", strconv.FormatInt(all[len(all)-1].Version, 10), "{uuidv7}", list(sums),
	).Replace(statement("sql/violations/schema.sql", o.Cell)), nil
}

// tried is a script that makes attempts, each rolled back, and compares their results.
func tried(attempts script) script {
	return func(matrix acl.Matrix, o Options) (string, error) {
		made, err := attempts(matrix, o)
		return strings.ReplaceAll(statement("sql/violations/tried.sql", o.Cell), "{make}", strings.TrimRight(made, "\n")), err
	}
}

// everyVerb makes the attempts of verbs.
func everyVerb(matrix acl.Matrix, o Options) (string, error) {
	var names, grants []string
	for _, role := range matrix.Roles {
		if role.Name != matrix.Owner {
			names = append(names, "("+literal(role.Name)+")")
		}
	}
	for _, g := range matrix.Grants {
		grants = append(grants, "("+list([]string{g.Role, g.Privilege, string(g.Object.Kind), g.Object.Name,
			g.Object.Column})+")")
	}
	return strings.NewReplacer(
		"{roles}", values(names), "{grants}", values(grants),
		"{attempts}", inlined(statement("sql/attempts.sql", o.Cell), "'railhead_prove_by_hand'"),
	).Replace(statement("sql/parts/try_all.sql", o.Cell)), nil
}

// everyChange makes the attempts of append-only.
func everyChange(matrix acl.Matrix, o Options) (string, error) {
	var triers []string
	for _, role := range matrix.Roles {
		wanted := "refused"
		if role.Name == matrix.Owner {
			wanted = "recorded"
		}
		triers = append(triers, "("+list([]string{role.Name, "", wanted})+")")
	}
	triers = append(triers, "("+list([]string{"", "", "recorded"})+")",
		"("+list([]string{"", replicaMode, "recorded"})+")")
	return strings.NewReplacer(
		"{triers}", values(triers), "{attempts}", inlined(statement("sql/append_only.sql", o.Cell)),
	).Replace(statement("sql/parts/try_append_only.sql", o.Cell)), nil
}

// everyToken makes the attempts of tokens.
func everyToken(_ acl.Matrix, o Options) (string, error) {
	return strings.NewReplacer(
		"{plant}", inlined(statement("sql/tokens_plant.sql", o.Cell)), "{attempts}",
		inlined(statement("sql/tokens.sql", o.Cell)),
	).Replace(statement("sql/parts/try_tokens.sql", o.Cell)), nil
}

// states are the states for which holds is true, as a list of SQL.
func states(holds func(payment.State) bool) string {
	var all []payment.State
	for _, state := range payment.States() {
		if holds(state) {
			all = append(all, state)
		}
	}
	return list(all)
}

// pairs are the pairs of states for which holds is true, "" for the beginning.
// LATE_OUTCOME is left out, because no statement needs it.
func pairs(holds func(last, next payment.State) bool) string {
	var rows []string
	for _, last := range append([]payment.State{""}, payment.States()...) {
		for _, next := range payment.States() {
			if next != payment.LateOutcome && holds(last, next) {
				rows = append(rows, "("+list([]payment.State{last, next})+")")
			}
		}
	}
	return values(rows)
}

// list returns texts as a list of SQL.
func list[T ~string](texts []T) string {
	quoted := make([]string, len(texts))
	for n, text := range texts {
		quoted[n] = literal(string(text))
	}
	return strings.Join(quoted, ", ")
}

// values returns rows as they follow VALUES, one on each line.
func values(rows []string) string { return "    " + strings.Join(rows, ",\n    ") }

// literal is a string constant, where standard_conforming_strings is on.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// Heading is the head of a printed proof: what it shows, and which login can run it.
func (p Proof) Heading() string {
	who := "a member of " + p.RunAs
	if p.RunAs == asSuperuser {
		who = "a superuser, at a quiet hour or on a copy: it takes short locks"
	}
	return fmt.Sprintf("-- %s: %s\n-- expected: %s; each row below is a violation\n-- run it as %s\n", p.Name, p.Shows,
		p.Expected, who)
}
