package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// ProfileVersion is a version of a rail's profile: when it was put in force, by whom and why.
type ProfileVersion struct {
	Version   int             `json:"version"`
	AppliedAt time.Time       `json:"applied_at"`
	AppliedBy string          `json:"applied_by"` // the login
	Reason    string          `json:"reason"`
	Profile   json.RawMessage `json:"profile,omitempty"` // nil in a list of versions
}

// RailProfiles are the profile of a rail that is in force, two versions of it to compare, and the
// list of its versions.
type RailProfiles struct {
	InForce  ProfileVersion
	Before   ProfileVersion   // the zero value: there is no such version
	After    ProfileVersion   // the zero value: there is no such version
	Versions []ProfileVersion // newest first, without their profiles
	More     bool             // there are older versions than the last one of Versions
}

// ProfileQuery names what RailProfiles reads of a rail.
type ProfileQuery struct {
	RailType string
	// Before and After are the versions to compare. After 0 is the version in force, and Before 0
	// the one before After.
	Before, After int
	// OlderThan begins the list of versions below a version; 0: with the newest.
	OlderThan int
}

// VersionsMax is the maximum of versions in one list.
const VersionsMax = 50

// versionMax is above every version: the greatest number of their column.
const versionMax = 1<<31 - 1

// RailProfiles reads the profile of a rail in force, two versions to compare, and up to VersionsMax
// versions. If there is no such rail, the error is outbox.ErrNotFound.
func (r *Reader) RailProfiles(ctx context.Context, query ProfileQuery) (RailProfiles, error) {
	if query.OlderThan <= 0 || query.OlderThan > versionMax {
		query.OlderThan = versionMax
	}
	if query.Before < 0 || query.Before > versionMax || query.After < 0 || query.After > versionMax {
		return RailProfiles{}, fmt.Errorf("%w: a version is a number from 1 to %d", outbox.ErrUnanswerable, versionMax)
	}
	var p RailProfiles
	found := false
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["rail_profiles"], query.RailType, query.Before, query.After).
			Query(store.Each(func(row pgx.CollectableRow) error {
				found = true
				return p.scan(row)
			}))
		batch.Queue(r.db.SQL["rail_versions"], query.RailType, query.OlderThan, VersionsMax+1).
			Query(store.Collect(&p.Versions, scanVersion))
	})
	if err == nil && !found {
		err = outbox.ErrNotFound
	}
	if err != nil {
		return RailProfiles{}, fmt.Errorf("reading the profiles of rail %q: %w", store.Bound(query.RailType, 64), err)
	}
	if len(p.Versions) > VersionsMax {
		p.Versions, p.More = p.Versions[:VersionsMax], true
	}
	return p, nil
}

// scan keeps a version in each place that it has.
func (p *RailProfiles) scan(row pgx.CollectableRow) error {
	var v ProfileVersion
	var profile string
	var inForce, before, after int
	err := row.Scan(&v.Version, &v.AppliedAt, &v.AppliedBy, &v.Reason, &profile, &inForce, &before, &after)
	v.Profile = json.RawMessage(profile)
	if v.Version == inForce {
		p.InForce = v
	}
	if v.Version == before {
		p.Before = v
	}
	if v.Version == after {
		p.After = v
	}
	return err
}

func scanVersion(row pgx.CollectableRow) (ProfileVersion, error) {
	var v ProfileVersion
	err := row.Scan(&v.Version, &v.AppliedAt, &v.AppliedBy, &v.Reason)
	return v, err
}
