\set ON_ERROR_STOP on
BEGIN TRANSACTION ISOLATION LEVEL {isolation}, READ {mode};
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL row_security = off;
SET LOCAL lock_timeout = '{lock_timeout}';
SET LOCAL standard_conforming_strings = on;
SET LOCAL quote_all_identifiers = off;
SET LOCAL transform_null_equals = off;
SET LOCAL jit = off;
