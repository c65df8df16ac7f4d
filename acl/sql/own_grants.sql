-- From PostgreSQL 16 on a login may be set to become a member of each role that it creates. None of the roles and
-- logins of a cell is one that an administrator acts as.
SELECT set_config(s.name, '', true) FROM pg_catalog.pg_settings s WHERE s.name = 'createrole_self_grant';
