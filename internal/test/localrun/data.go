package localrun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// dataElsewhere is the place of a private server's data if the server's account may not enter the
// folder of the run.
const dataElsewhere = "/var/lib/railhead"

// placeData returns the data folder of the private server: pg in the folder of the run. If this
// process is root and the folder is closed, such as one in root's home, the server runs under an
// account that may not enter it, and the modes of the caller's folders are not changed for it. The
// data then goes below elsewhere, and a symbolic link named pg leads the next run to it.
func (i *installation) placeData() (string, error) {
	own := filepath.Join(i.Dir, "pg")
	closed := pgserver.Reachable(i.Dir)
	if _, err := os.Lstat(own); errors.Is(err, os.ErrNotExist) && closed != nil {
		if err := linkData(own, i.elsewhere); err != nil {
			return "", fmt.Errorf("%w: %w, and its data can't go elsewhere: %w; name an open folder with --dir", ErrBadOptions,
				closed, err)
		}
	}
	data, err := os.Readlink(own)
	if err != nil {
		return own, nil // a folder, or nothing yet
	}
	if !filepath.IsAbs(data) {
		data = filepath.Join(i.Dir, data)
	}
	because := ""
	if closed != nil {
		because = fmt.Sprintf(", because %v", closed)
	}
	i.say("database: its data is in %s%s", data, because)
	return data, makeOpen(filepath.Dir(data))
}

// linkData creates a new folder below elsewhere and then the link to the data in it. A crash
// between the two leaves an empty folder, which no run uses.
func linkData(link, elsewhere string) error {
	if err := pgserver.Reachable(elsewhere); err != nil {
		return err
	}
	if err := makeOpen(elsewhere); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(elsewhere, "run-")
	if err != nil {
		return err
	}
	if err = os.Chmod(folder, 0o755); err == nil {
		err = os.Symlink(filepath.Join(folder, "pg"), link)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(folder))
	}
	if errors.Is(err, os.ErrExist) {
		return nil // a run that was started at the same time has made the link
	}
	return err
}

// makeOpen creates the missing folders of a path, and lets every account enter them, whatever the
// umask is.
func makeOpen(path string) error {
	err := os.Mkdir(path, 0o755)
	switch {
	case err == nil:
		return os.Chmod(path, 0o755)
	case errors.Is(err, os.ErrExist):
		return nil
	case errors.Is(err, os.ErrNotExist):
		if err := makeOpen(filepath.Dir(path)); err != nil {
			return err
		}
		return makeOpen(path)
	default:
		return err
	}
}
