-- Whether a person has accepted this server. $1 system_identifier, $2 timeline
SELECT EXISTS (
  SELECT FROM {cell}.payment_accepted_timelines t WHERE t.system_identifier = $1 AND t.timeline = $2)
