package payment

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ID is a UUID in its 16 bytes (RFC 9562). Railhead makes version 7 only.
type ID [16]byte

// ErrBadID is returned by ParseID for text that is not a UUID.
var ErrBadID = errors.New("not a UUID in its 36 character form")

// NewID makes a version 7 UUID (RFC 9562, section 5.7): 48 bits of Unix
// milliseconds, 12 bits of the fraction of that millisecond, 62 random bits.
func NewID() ID { return newIDAt(time.Now()) }

func newIDAt(now time.Time) ID {
	var id ID
	micros := now.UnixMicro()
	fraction := uint64(micros%1000) * 4096 / 1000
	binary.BigEndian.PutUint64(id[:8], uint64(micros/1000)<<16|0x7000|fraction)
	rand.Read(id[8:]) // never fails: crypto/rand ends the process instead
	id[8] = id[8]&0x3f | 0x80
	return id
}

// FloorID returns the lowest id of a moment's millisecond, for comparisons: no id of that
// time or later is below it. It is no version 7 UUID itself.
func FloorID(moment time.Time) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(moment.UnixMilli())<<16)
	return id
}

// ParseID reads the 36 character form of a UUID, in either case.
func ParseID(text string) (ID, error) {
	var id ID
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return ID{}, fmt.Errorf("%q: %w", text, ErrBadID)
	}
	digits := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, fmt.Errorf("%q: %w", text, ErrBadID)
	}
	return id, nil
}

// IsZero reports whether the id was never set.
func (id ID) IsZero() bool { return id == ID{} }

// Time returns the time of a version 7 UUID, to the millisecond.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

func (id ID) String() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MarshalText returns the 36 character form.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the 36 character form.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// RailKey formats the 128 bits of a rail key as the rail gets them: the letters rh
// and 32 hexadecimal digits. Its 34 characters fit the Max35Text of ISO 20022
// identifications, which a UUID with dashes does not.
func RailKey(key ID) string { return "rh" + hex.EncodeToString(key[:]) }

// ParseRailKey is the inverse of RailKey, for answers and callbacks that name a
// payment by the key it was sent with.
func ParseRailKey(text string) (ID, error) {
	var key ID
	if len(text) != 34 || text[:2] != "rh" {
		return ID{}, fmt.Errorf("%q is not a rail key: it has the letters rh and 32 hexadecimal digits", text)
	}
	if _, err := hex.Decode(key[:], []byte(text[2:])); err != nil {
		return ID{}, fmt.Errorf("%q is not a rail key: it has the letters rh and 32 hexadecimal digits", text)
	}
	return key, nil
}

// DeriveRailKey returns the rail's de-duplication key of an instruction: the first
// half of the SHA-256 over the cell's namespace and the caller's key, separated by the
// unit separator, which identifiers can't contain. It is the same on every send, and
// for an enqueue that is repeated after a restore lost the first one. The SQL function
// payment_rail_key computes the same, and stores it with the instruction.
func DeriveRailKey(namespace ID, participantID, instructionID, idempotencyKey string) ID {
	key := participantID + "\x1f" + instructionID + "\x1f" + idempotencyKey
	sum := sha256.Sum256([]byte(namespace.String() + "\x1f" + key))
	return ID(sum[:16])
}
