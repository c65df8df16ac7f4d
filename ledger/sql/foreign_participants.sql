-- Counts the participants of other cells who have enqueued here. No argument
SELECT {cell}.foreign_participants()
