-- The process of the session on the server. Behind a pooler it is not the one of the client's key for cancellations.
SELECT pg_backend_pid()
