-- As whom the session acts, if it was told so: none where it was not.
SELECT current_setting('role');
