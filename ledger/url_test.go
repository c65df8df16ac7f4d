package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger"
)

// TestCheckURL: a password with a character that is not escaped is refused, and no part of it is told.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]bool{
		"postgres://a:p@secret@h/db": true, "postgresql://a:p@secret/x@h:5432,g:5433/db": true, "postgres://a:p@s#secret@h/": true,
		"postgres://a:p?r@secret@h:1/db": true, "postgres://a:1/secret@h/db": true, "postgres://a:p@s?secret@h/db": true,
		"postgres://a:p@s?secret=x@h/db": true, "postgres://h,a:secret@g/db": false, "postgres://a:p@h,a:secret@g/db": true,
		"POSTGRES://a:p@secret@h/db": true, " postgres://a:p@s=ecret@h/db": true, "postgres:/a:p@secret@h/db": true,
		"postgres://h/db?password=a&secret": true, "postgres://h/db?password=a&secret=b=c": true,
		"postgres://a:p%40secret@h/db": false, "postgres://a@h/db?application_name=a@b@c": false, "postgres:///db": false,
		"postgres://a:p?a#b:c@h/db": false, "postgres://h:1/db?user=a@b&sslmode=disable": false, "postgres://a@h?": false,
		"postgres://a@h/db?sslmode=disable&": false,
		"host=h user=a password=p@sec@ret":   false, "": false, "host=h password = 'a b' user=a": false,
		`password='it\'s a' host=h`: false, `password=a\ b host=h`: false,
		"host=h password=a secret user=a": true, "password='a'secret' host=h": true, "password='secret": true,
	} {
		err := ledger.CheckURL(text)
		if (err != nil) != refused || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestParametersOfAURL: of these parameters those are refused that pgx refuses, as libpq does, and no others; the error
// names one that is known.
func TestParametersOfAURL(t *testing.T) {
	t.Parallel()
	for query, named := range map[string]string{
		"options=-csearch_path=secret": "the parameter options", "password=c2VjcmV0secret==": "the parameter password",
		"user=a&sslrootcert=/etc/secret=y.pem": "the parameter sslrootcert", "sslmode": "the parameter sslmode",
		"sslmode=disable&&connect_timeout=5": "an empty parameter", "&sslmode=disable": "an empty parameter",
		"secret=b=c": "a parameter", "password=a&secret": "a parameter",
		"options=-csearch_path%3Dx": "", "password=YWJj%3D%3D": "",
		"krbspn=postgres/h@EXAMPLE.ORG": "", "servicefile=/etc/pg@home/services": "", "passfile=/etc/x%3Dy": "",
	} {
		text := "postgres://u:p@h/db?" + query
		err := ledger.CheckURL(text)
		if _, refused := pgx.ParseConfig(text); (refused != nil) != (named != "") {
			t.Errorf("%s: pgx: %v", text, refused)
		}
		switch {
		case named == "" && err == nil:
		case named == "" || err == nil || !strings.Contains(err.Error(), "has "+named+", which is") ||
			strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: %v, want %q", text, err, named)
		}
	}
}

// TestPasswordIsNothingElse: with any two special characters in a password, no part of it becomes a host, a user, a
// database or a parameter.
func TestPasswordIsNothingElse(t *testing.T) {
	t.Parallel()
	const special = `@/?#%&:[]',;\"+`
	accepted := 0
	for _, form := range []string{"postgres://u:%s@127.0.0.1:1/db", "postgresql://u:%s@h/db?sslmode=none",
		"host=h user=u password=%s", "host=h user=u password = '%s' sslmode=none"} {
		for _, a := range special {
			for _, b := range special {
				text := fmt.Sprintf(form, fmt.Sprintf("12%csecret%csecret", a, b))
				if err := ledger.CheckURL(text); err != nil {
					if strings.Contains(err.Error(), "secret") {
						t.Errorf("%s: %v", text, err)
					}
					continue
				}
				config, err := pgx.ParseConfig(text)
				if err != nil { // railhead shows nothing of such a string
					continue
				}
				accepted++
				elsewhere := fmt.Sprint(config.Host, config.User, config.Database, config.RuntimeParams)
				if strings.Contains(elsewhere, "secret") || strings.Count(config.Password, "secret") != 2 {
					t.Errorf("%s: the password is %q, and %s", text, config.Password, elsewhere)
				}
			}
		}
	}
	if accepted < 100 {
		t.Errorf("only %d were read", accepted)
	}
}
