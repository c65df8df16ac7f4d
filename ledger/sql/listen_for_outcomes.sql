-- Subscribes this session to outcomes. Returns whether every outcome is notified from now on.
SELECT {cell}.listen_for_outcomes()
