-- Settings of the transaction in which pace is read: the index in the order of transactions is followed
-- from its end, whatever the statistics are.
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)
