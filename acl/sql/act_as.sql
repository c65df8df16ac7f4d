-- Act as the role $1 until the transaction ends; none is the login itself.
SELECT set_config('role', $1, true);
