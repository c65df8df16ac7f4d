-- Ends the pauses whose end has come, and names what goes on.
SELECT p FROM {cell}.end_pauses() p
