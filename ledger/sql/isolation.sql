-- The isolation of transactions that do not set their own, and the login. Behind a pooler it is that of the login.
SELECT current_setting('default_transaction_isolation'), session_user::text
