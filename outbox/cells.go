package outbox

import (
	"crypto/sha256"
	"encoding/binary"
)

// Buckets is the number of buckets over which participants are spread. It never changes.
const Buckets = 1024

// BucketOf returns the bucket of a participant, 0 to Buckets - 1: the first 10 bits of
// SHA-256 of the bytes of its id. The SQL function cell_bucket computes the same. It never
// changes, because participants would get other cells.
func BucketOf(participantID string) int {
	digest := sha256.Sum256([]byte(participantID))
	return int(binary.BigEndian.Uint16(digest[:2]) >> 6)
}

// BucketCell is the cell that takes a bucket, by one copy of the map.
type BucketCell struct {
	Cell    string
	Setting string // the name under which a process finds its connection string
	Schema  string
	Version int  // counts the cells of the bucket; 0: no map
	Here    bool // whether it is the cell that the copy is of
	Takes   bool // whether that cell takes the bucket's participants now; false of any other cell
	// Directory is the id of the directory that the copy is of, a UUID; empty: the copy does not say it.
	Directory string
	// Disputed: copies name different cells for this version. Which of them takes the bucket is not known.
	Disputed bool
}

// is reports whether two copies name the same cell.
func (c BucketCell) is(other BucketCell) bool {
	return c.Cell == other.Cell && c.Setting == other.Setting && c.Schema == other.Schema
}

// CellMap is a copy of the map of cells, by bucket. In that of a cell without a map every Version is 0.
type CellMap [Buckets]BucketCell

// Of returns the cell of a participant.
func (m *CellMap) Of(participantID string) BucketCell { return m[BucketOf(participantID)] }

// Whole reports whether the copy has a cell for every bucket. That of a cell without a map has none,
// and that of one which has just joined a directory again may lack some.
func (m *CellMap) Whole() bool {
	for bucket := range m {
		if m[bucket].Version == 0 {
			return false
		}
	}
	return true
}

// Merge takes what another copy knows better, and reports whether that was anything. A bucket for which
// the copies name different cells, with one version, is Disputed, until a copy has a newer version.
func (m *CellMap) Merge(other *CellMap) (changed bool) {
	for bucket := range other {
		mine, its := &m[bucket], other[bucket]
		switch {
		case its.Version > mine.Version:
			*mine, changed = its, true
		case its.Version == mine.Version && !mine.Disputed && (its.Disputed || !mine.is(its)):
			mine.Disputed, changed = true, true
		}
	}
	return changed
}

// Directory returns the id of the directory that the copy is of, or nothing if it has no cell for any bucket.
func (m *CellMap) Directory() string {
	for n := range m {
		if m[n].Directory != "" {
			return m[n].Directory
		}
	}
	return ""
}
