package console

import (
	"encoding/json"
	"net/http"
	"strings"
)

// routes are all addresses of the process. Every page but those of the login needs a session, and
// every act the role operate.
func (s *Site) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file...}", serveStatic)
	mux.HandleFunc("GET /login", s.loginPage)
	for _, login := range s.logins {
		login.Register(mux, s)
	}
	mux.HandleFunc("POST /logout", s.logout)
	for _, c := range s.consoles {
		c.register(below{mux, c.base})
	}
	if s.only == nil {
		mux.HandleFunc("GET /{$}", s.known(s.allCells))
		mux.HandleFunc("GET /state.json", s.known(s.allNow))
		mux.HandleFunc("GET /search", s.known(s.searchAll))
		mux.HandleFunc("/cells/{setting}", s.known(s.toCell))
		mux.HandleFunc("/", s.known(s.noPage))
	}
	return mux
}

// below registers routes below the base of a cell.
type below struct {
	to   *http.ServeMux
	base string
}

// HandleFunc registers a route by a pattern such as "GET /payments", or "/".
func (b below) HandleFunc(pattern string, do http.HandlerFunc) {
	method, path, has := strings.Cut(pattern, " ")
	if !has {
		method, path = "", pattern
	}
	b.to.HandleFunc(strings.TrimSpace(method+" "+b.base+path), do)
}

// register registers the pages and acts of a cell.
func (c *Console) register(mux below) {
	mux.HandleFunc("GET /{$}", c.known(c.overview))
	mux.HandleFunc("GET "+streamPath, c.known(c.stream))
	mux.HandleFunc("GET /state.json", c.known(c.stateNow))
	mux.HandleFunc("GET /live.json", c.known(c.live))
	mux.HandleFunc("GET /search", c.known(c.search))
	mux.HandleFunc("GET /payments", c.known(c.list))
	mux.HandleFunc("GET /payments/{id}", c.known(c.payment))
	mux.HandleFunc("POST /payments/{id}/reveal", c.operating(c.reveal))
	mux.HandleFunc("POST /payments/{id}/{act}", c.operating(c.act))
	mux.HandleFunc("GET /dead-letters", c.known(c.letters))
	mux.HandleFunc("GET /dead-letters/orders/{form}", c.known(c.outcomes))
	mux.HandleFunc("POST /dead-letters/{act}", c.operating(c.actOnLetters))
	mux.HandleFunc("GET /rails", c.known(c.rails))
	mux.HandleFunc("GET /rails/{name}", c.known(c.rail))
	mux.HandleFunc("GET /participants", c.known(c.participants))
	mux.HandleFunc("GET /participant", c.known(c.participant))
	mux.HandleFunc("GET /endpoints", c.known(c.endpoints))
	mux.HandleFunc("GET /components", c.known(c.components))
	mux.HandleFunc("POST /components/accept", c.operating(c.acceptServer))
	mux.HandleFunc("GET /database", c.known(c.database))
	mux.HandleFunc("GET /tokens", c.known(c.tokens))
	mux.HandleFunc("GET /alerts", c.known(c.alerts))
	mux.HandleFunc("POST /rails/{name}/{act}", c.operating(c.actOn(ofRails)))
	mux.HandleFunc("POST /participant/{act}", c.operating(c.actOn(ofParticipants)))
	mux.HandleFunc("POST /endpoints/{name}/{act}", c.operating(c.actOn(ofEndpoints)))
	mux.HandleFunc("GET /runbooks/{alert}", c.known(c.runbook))
	mux.HandleFunc("GET /audit", c.known(c.audit))
	mux.HandleFunc("GET /audit/log", c.known(c.operatorLog))
	mux.HandleFunc("GET /audit/proofs/{name}", c.known(c.proof))
	mux.HandleFunc("/", c.known(func(w http.ResponseWriter, r *http.Request, _ Person) {
		c.fail(w, r, problem{http.StatusNotFound, "There is no such page", "Begin at the first page, or search."})
	}))
}

// live answers with the points of the charts.
func (c *Console) live(w http.ResponseWriter, _ *http.Request, _ Person) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.state.columns()) // a client that is gone needs no answer
}
