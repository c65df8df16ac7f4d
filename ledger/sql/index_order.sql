-- Makes the statements that follow in the transaction read rows in the order of an index. With
-- outdated statistics the planner would take a large table for a small one, and sort all of it.
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)
