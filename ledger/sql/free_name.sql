-- Takes the name $1 from a component whose kind neither claims nor vouches: a relayer or a reaper beats under its own
-- name, whatever the Internet has reached.
DELETE FROM {cell}.outbox_heartbeats h WHERE h.name = $1 AND h.kind NOT IN ('relayer', 'reaper')
