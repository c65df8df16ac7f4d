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

// Apart reports whether two copies are of different directories, with a bucket about which they contradict
// each other: of those for which they have the same version they agree on none. Where a cell of one
// directory was restored, its copy contradicts others on some buckets alone.
func (m *CellMap) Apart(other *CellMap) (bucket int, apart bool) {
	for n := range m {
		switch {
		case m[n].Version == 0 || m[n].Version != other[n].Version:
		case m[n].is(other[n]):
			return 0, false
		default:
			bucket, apart = n, true
		}
	}
	return bucket, apart
}
