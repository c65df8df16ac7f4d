-- Begins an act of an operator: returns the process id of its session, names the person on whose
-- behalf it is done, and bounds the wait for locks. Without a person a setting of the login stays.
-- $1 the person, or null
SELECT pg_backend_pid(), CASE WHEN $1::text IS NOT NULL THEN set_config('railhead.person', $1, true) END,
  set_config('lock_timeout', '5s', true)
