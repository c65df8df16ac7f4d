DO $$
BEGIN
  IF (SELECT array_agg(b.bucket ORDER BY b.bucket) FROM railhead.payment_buckets b WHERE b.cell IS NULL AND b.version = 0)
    <> ARRAY(SELECT generate_series(0, 1023)) THEN
    RAISE EXCEPTION 'the buckets are %', (SELECT count(*) FROM railhead.payment_buckets);
  END IF;
  IF (SELECT r.own_buckets FROM railhead.payment_outbox_rules r) IS NOT NULL OR EXISTS (SELECT FROM railhead.payment_cells) THEN
    RAISE EXCEPTION 'a cell has a map after its migration';
  END IF;
  IF railhead.bump_participant_outbox_seq('old') <> 2 OR railhead.bump_participant_outbox_seq('new') <> 1 THEN
    RAISE EXCEPTION 'participants do not go on';
  END IF;
END
$$;
