-- Ends the pauses, and opens the gates, whose end has come, and returns what was resumed.
SELECT p FROM {cell}.end_pauses() p
