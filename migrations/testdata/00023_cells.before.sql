-- A participant that has enqueued before there were cells.
SELECT railhead.bump_participant_outbox_seq('old');
