package api

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"
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

// readable returns the problem of a query of which a part is dropped, by huma and URL.Query alike: one that can't be
// decoded, or the second value of a parameter. A page without a filter that its caller has sent lists other payments.
// The events have parameters that are lists: readListening looks for those that are given twice.
func readable(query, operation string) *Problem {
	values, err := url.ParseQuery(query)
	if err != nil {
		return kindBadRequest.saying("The query can not be read: write % as %25 and ; as %3B.")
	}
	for name, all := range values {
		if len(all) > 1 && operation != opEvents && operation != opStream {
			return kindBadRequest.of("query."+bounded(name), "ONCE", "A parameter is given once.")
		}
		for _, value := range all {
			if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				return kindBadRequest.of("query."+bounded(name), "FORM", "A parameter is text in UTF-8 without the character zero.")
			}
		}
	}
	return nil
}

// notBatch answers a GET of the batches, which are posted.
func notBatch(w http.ResponseWriter, _ *http.Request) {
	p := kindMethod.problem()
	p.allow = http.MethodPost
	p.write(w)
}
