package api

import (
	"net/http"
	"path"
	"strings"
)

// isClean reports whether a path is one that the mux serves. It redirects others, which a caller of an API does not
// follow: curl prints nothing then, and succeeds.
func isClean(asked string) bool {
	clean := path.Clean("/" + asked)
	if strings.HasSuffix(asked, "/") && clean != "/" {
		clean += "/"
	}
	return asked == clean
}

// noOperation returns the problem of a request that no pattern serves: the path has other methods, or is none.
func noOperation(mux *http.ServeMux, r *http.Request) *Problem {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return kindNoOperation.problem()
	}
	p := kindMethod.problem()
	p.allow = strings.Join(allowed, ", ")
	return p
}
