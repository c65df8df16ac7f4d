package console

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
)

// Certificates is a login by a client certificate that the certificates of TLSFiles.ClientCA sign.
type Certificates struct{ roles Roles }

// NewCertificates returns a login by client certificates. The entries of roles are common names (cn:),
// e-mail addresses (email:) or organizational units (ou:) of certificates.
func NewCertificates(roles Roles) *Certificates { return &Certificates{roles} }

// Offer is on the login page.
func (c *Certificates) Offer() (text, address string) {
	return "Log in with your client certificate", "/login/certificate"
}

// LoopbackOnly is false.
func (c *Certificates) LoopbackOnly() bool { return false }

// Register adds the page with the button, and the address that the button sends to.
func (c *Certificates) Register(mux *http.ServeMux, door Door) {
	mux.HandleFunc("GET /login/certificate", func(w http.ResponseWriter, r *http.Request) {
		door.Ask(w, r, "Log in with your client certificate", "/login/certificate", "")
	})
	mux.HandleFunc("POST /login/certificate", func(w http.ResponseWriter, r *http.Request) {
		// Only a chain that was verified names a person.
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			door.Refuse(w, r, "Your browser sent no certificate that is accepted here",
				"Install the certificate that you were given, open the console again, and choose it.", nil)
			return
		}
		leaf := r.TLS.VerifiedChains[0][0]
		names := slices.Concat(leaf.EmailAddresses, []string{leaf.Subject.CommonName})
		role, ok := c.roles.of(slices.Concat(kindEmail.named(leaf.EmailAddresses...),
			kindCommon.named(leaf.Subject.CommonName), kindUnit.named(leaf.Subject.OrganizationalUnit...)))
		name := slices.IndexFunc(names, func(name string) bool { return name != "" })
		if !ok || name < 0 {
			door.Refuse(w, r, "Your certificate has no role here",
				"Ask for a role: the console names those of each role.", causeNoRole)
			return
		}
		door.Admit(w, r, Person{Name: names[name], Role: role, By: "certificate", certificate: certificateOf(r)})
	})
}

// certificateOf is the digest of the client certificate of a request's connection; empty: none.
func certificateOf(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return ""
	}
	sum := sha256.Sum256(r.TLS.VerifiedChains[0][0].Raw)
	return hex.EncodeToString(sum[:])
}
