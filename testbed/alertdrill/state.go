package alertdrill

import (
	"errors"
	"os"
	"path/filepath"
)

// stateFolder is the folder in which a component keeps what it remembers of the server.
func (w *world) stateFolder(name string) string { return filepath.Join(w.dir, "state-"+name) }

// takeStateAway puts a file in the place of the folder: a process of root writes to every folder.
func (w *world) takeStateAway(name string) ([]string, error) {
	folder := w.stateFolder(name)
	return []string{"STATE_DIR=" + folder}, errors.Join(os.Rename(folder, folder+".away"),
		os.WriteFile(folder, nil, 0o600))
}

// bringStateBack undoes takeStateAway.
func (w *world) bringStateBack(name string) error {
	folder := w.stateFolder(name)
	return errors.Join(os.Remove(folder), os.Rename(folder+".away", folder))
}
