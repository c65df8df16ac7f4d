package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// kinds are the content types of the files, by their ends: the operating system's table may have others.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	".LICENSE": "text/plain; charset=utf-8",
}

// serveStatic serves the style sheet and the scripts, which have no content of the cell.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := path.Clean("static/" + r.PathValue("file"))
	text, err := static.ReadFile(name)
	kind := kinds[path.Ext(name)]
	if err != nil || kind == "" || !strings.HasPrefix(name, "static/") {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // the browser keeps it, and asks whether it is the same
	h.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", kind)
	_, _ = w.Write(text) // a client that is gone needs no answer
}
