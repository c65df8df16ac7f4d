package main

// environment lists every variable that Railhead reads. The help topic shows it, and
// docs/operations.md has the same tables; tests compare both with the code.
func environment() []variables {
	return []variables{
		connectionVariables(), libpqVariables(), processVariables(), consoleVariables(), numberVariables(),
		budgetVariables(), traceVariables(), repositoryVariables(),
	}
}

func connectionVariables() variables {
	return variables{
		title: "Connections",
		about: "Each command connects with a login of its own, because each has a role of its own. A value is a " +
			"connection string of " +
			"PostgreSQL, as a URL or as words. A password is never taken from the command line. The secrets of rails are in " +
			"the " +
			"variables and files that the rails file names. Where participants are spread over cells, a command or process " +
			"that works on several finds the cell with setting WEST by the variable with _WEST at its end, such as " +
			"RAILHEAD_OPERATOR_URL_WEST.",
		list: []variable{
			{"RAILHEAD_ADMIN_URL", "DATABASE_URL", "migrate, roles, token: a superuser or an administrator, and not through PgBouncer"},
			{"RAILHEAD_INGEST_URL", "DATABASE_URL", "enqueue: a member of railhead_ingest"},
			{"RAILHEAD_OPERATOR_URL", "DATABASE_URL", "every act of an operator, and those of the console: a member of railhead_operator"},
			{"RAILHEAD_READER_URL", "DATABASE_URL", "payment, status, lists, console: a member of railhead_readonly"},
			{"RAILHEAD_AUDITOR_URL", "DATABASE_URL", "prove: a member of railhead_auditor"},
			{"RAILHEAD_RELAYER_URL", "DATABASE_URL", "relayer: a member of railhead_executor"},
			{"RAILHEAD_REAPER_URL", "DATABASE_URL", "reaper: a member of railhead_executor"},
			{"RAILHEAD_CALLBACKS_URL", "DATABASE_URL", "callbacks: a member of railhead_callbacks"},
			{"RAILHEAD_API_URL", "DATABASE_URL", "api: a member of railhead_api; it needs direct sessions, for LISTEN"},
			{"RAILHEAD_EVENTS_URL", "DATABASE_URL", "events: a member of railhead_events"},
			{"RAILHEAD_LISTEN_URL", "RAILHEAD_RELAYER_URL",
				"a direct session for LISTEN, where RAILHEAD_RELAYER_URL leads to a pooler in transaction mode"},
			{"RAILHEAD_METRICS_URL", "the component's own",
				"the gauges of /metrics that come from the database: a member of railhead_readonly. " +
					"Callbacks, api, events and console have none of them without it"},
			{"DATABASE_URL", "", "each of the first ten that is not set; for dev the server to use instead of a private one"},
		},
	}
}

func libpqVariables() variables {
	return variables{
		title: "Variables of libpq",
		about: "They complete a connection string, with the meaning that they have for PostgreSQL's own programs. Without " +
			"a " +
			"connection string PGHOST or PGSERVICE has to be set.",
		list: []variable{
			{"PGHOST", "the local socket", "host, or folder of the Unix socket"},
			{"PGPORT", "5432", "port"},
			{"PGDATABASE", "PGUSER", "database"},
			{"PGUSER", "the account", "login"},
			{"PGPASSWORD", "", "password of the login"},
			{"PGPASSFILE", "~/.pgpass", "file of passwords"},
			{"PGSERVICE", "", "entry of the service file"},
			{"PGSERVICEFILE", "~/.pg_service.conf", "service file"},
			{"PGTARGETSESSIONATTRS", "any", "which of several hosts is taken, such as read-write"},
			{"PGCONNECT_TIMEOUT", "", "migrate, roles: seconds that a connection may take; all others wait for 5 s"},
			{"PGOPTIONS", "", "options of the session"},
			{"PGTZ", "", "time zone of the session"},
			{"PGAPPNAME", "", "changes nothing: each component and command names itself"},
			{"PGSSLMODE", "prefer", "whether TLS is used, and what is verified"},
			{"PGSSLNEGOTIATION", "postgres", "postgres or direct: how TLS begins"},
			{"PGSSLROOTCERT", "~/.postgresql/root.crt", "certificates that are trusted"},
			{"PGSSLCERT", "~/.postgresql/postgresql.crt", "our certificate"},
			{"PGSSLKEY", "~/.postgresql/postgresql.key", "its key"},
			{"PGSSLPASSWORD", "", "password of the key"},
			{"PGSSLCERTMODE", "allow", "whether our certificate is sent"},
			{"PGSSLSNI", "1", "0 sends no server name"},
			{"PGMINPROTOCOLVERSION", "3.0", "oldest version of the protocol"},
			{"PGMAXPROTOCOLVERSION", "3.0", "newest version of the protocol"},
			{"PGCHANNELBINDING", "prefer", "binding of SCRAM to the TLS channel"},
			{"PGREQUIREAUTH", "", "authentication methods that are accepted"},
		},
	}
}

func processVariables() variables {
	return variables{
		title: "The installation and its processes",
		about: "Settings of relayer, reaper, callbacks, api, events and console, unless the text says more.",
		list: []variable{
			{"RAILHEAD_CELL", "railhead", "every command: the schema of the installation; --cell takes precedence"},
			{"RAILHEAD_ADMINISTRATORS", "", "prove, roles, console: the administrators who are no superusers, with commas " +
				"between; any other member of railhead_owner is a violation"},
			{"RAILHEAD_CELLS", "", "relayer, reaper, api, console: settings of the cells that the process works for, such as " +
				"EAST,WEST. Each has its own connection strings, such as RAILHEAD_RELAYER_URL_WEST; RAILHEAD_CELL, " +
				"RAILHEAD_ADMINISTRATORS, RAILHEAD_RAILS_FILE, RAILHEAD_DATABASE_SIZE_LIMIT, the numbers and the assertions " +
				"can be set for one cell likewise. Without it: one cell"},
			{"RAILHEAD_RAILS_FILE", "rails.yaml", "relayer, callbacks: the rails file"},
			{"RAILHEAD_EVENTS_FILE", "events.yaml", "events: the file of endpoints"},
			{"RAILHEAD_STATE_DIR", "", "folder in which a component stores what it remembers of the server, for its next " +
				"start. Without " +
				"it a restart of the server and of all services suspends the lanes"},
			{"RAILHEAD_WORKER_ID", "new at each start", "the component's name in heartbeats and attempts, 1 to 120 bytes, " +
				"another one for each process, and not a kind and a colon at the beginning. In a process of several components " +
				"or cells the kind and the cell are added, " +
				"such as -relayer. Leave it out: what a process leaves behind is repaired later, after the setting " +
				"claim_timeout, if another one has its name"},
			{"RAILHEAD_HTTP_ADDR", "127.0.0.1:0", "address of /healthz, /readyz and /metrics; port 0 is any free one"},
			{"RAILHEAD_HTTP_ADDR_FILE", "", "file that the bound address is written to"},
			{"RAILHEAD_CALLBACKS_ADDR", "127.0.0.1:0", "callbacks: address that rails report to; port 0 is any free one"},
			{"RAILHEAD_CALLBACKS_ADDR_FILE", "", "callbacks: file that the bound address is written to"},
			{"RAILHEAD_CALLBACKS_CONNECTIONS", "500", "callbacks: connections of rails at once; more wait"},
			{"RAILHEAD_API_ADDR", "127.0.0.1:0", "api: address that callers reach; port 0 is any free one"},
			{"RAILHEAD_API_ADDR_FILE", "", "api: file that the bound address is written to"},
			{"RAILHEAD_API_CERT_FILE", "", "api: its certificate, in PEM, read again when it changes; without it TLS has to be in front of it"},
			{"RAILHEAD_API_KEY_FILE", "", "api: the certificate's key"},
			{"RAILHEAD_API_CLIENT_CA_FILE", "", "api: certificates that sign those of clients; without it any certificate of a client counts as proof of its key, signed by any CA, for a token that is bound to that key"},
			{"RAILHEAD_API_CONNECTIONS", "1000", "api: connections of callers at once; more wait"},
			{"RAILHEAD_API_STREAMS", "500", "api: streams of events at once, of the connections"},
			{"RAILHEAD_API_ORIGINS", "", "api: origins of pages that may read events, such as https://shop.example, with commas between"},
			{"RAILHEAD_API_EVENT_KEYS", "", "api: where the secrets are that seal event tokens, env:NAME or file:PATH, with commas between, at most 4 of at least 32 bytes: the first one seals, each opens, the same in every process; without one there are no event tokens"},
			{"RAILHEAD_API_DATABASE_CONNECTIONS", "8",
				"api: connections to the database, 1 to 100, in addition to one for LISTEN"},
			{"RAILHEAD_DATABASE_SIZE_LIMIT", "0", "bytes that the database's disk can hold, for the alert before it is full; 0: no limit is known"},
			{"RAILHEAD_LOG_LEVEL", "info", "debug, info, warn or error"},
			{"RAILHEAD_LOG_FORMAT", "by terminal", "text or json; by default text on a terminal, else json"},
			{"NO_COLOR", "", "every command: any value disables colours"},
			{"COLUMNS", "120", "every command: the most characters of a line of a table"},
			{"TERM", "", "every command: dumb disables colours"},
		},
	}
}

func consoleVariables() variables {
	return variables{
		title: "The console",
		about: "Settings of console. It needs at least one way to log in: OpenID Connect, client certificates, or the " +
			"one-time link. Who has no role does not get in.",
		list: []variable{
			{"RAILHEAD_CONSOLE_ADDR", "127.0.0.1:0", "address that browsers reach, itself or by a proxy; port 0 is any free one"},
			{"RAILHEAD_CONSOLE_ADDR_FILE", "", "file that the bound address is written to"},
			{"RAILHEAD_CONSOLE_PUBLIC_URL", "", "address that people type, such as https://railhead.example; other hosts are refused; OpenID Connect and a proxy with TLS need it"},
			{"RAILHEAD_CONSOLE_TRACE_URL", "", "address of a trace, with {trace_id} in place of its id, such as https://traces.example/trace/{trace_id}; without it a payment has no link to its trace"},
			{"RAILHEAD_CONSOLE_OPERATE", "false", "true: people with the role operate may act, with RAILHEAD_OPERATOR_URL; else the console is read-only"},
			{"RAILHEAD_CONSOLE_CERT_FILE", "", "its certificate, in PEM, read again when it changes; without it TLS has to be in front of it, except on a loopback address"},
			{"RAILHEAD_CONSOLE_KEY_FILE", "", "the certificate's key"},
			{"RAILHEAD_CONSOLE_CLIENT_CA_FILE", "", "certificates that sign those of people, who then log in with them"},
			{"RAILHEAD_CONSOLE_READERS", "", "who has the role read, with commas between: group:NAME of the claim, email:ADDRESS, or cn:NAME and ou:NAME of certificates"},
			{"RAILHEAD_CONSOLE_OPERATORS", "", "who has the role operate, likewise"},
			{"RAILHEAD_CONSOLE_OIDC_ISSUER", "", "issuer of OpenID Connect, such as https://login.example; it leads back to /login/oidc/back of the public URL"},
			{"RAILHEAD_CONSOLE_OIDC_CLIENT_ID", "", "the console's client id there"},
			{"RAILHEAD_CONSOLE_OIDC_CLIENT_SECRET", "", "where its secret is, env:NAME or file:PATH; without one the client is public, with PKCE alone"},
			{"RAILHEAD_CONSOLE_OIDC_CLAIM", "groups", "claim of the ID token with the names of a person's groups"},
			{"RAILHEAD_CONSOLE_OIDC_SCOPES", "", "scopes to ask for in addition to openid and email, with commas between"},
			{"RAILHEAD_CONSOLE_LINK", "", "read or operate: the role of a link that works once and is printed at the start, on a loopback address alone; a public URL must be of this machine then"},
			{"RAILHEAD_CONSOLE_LINK_FILE", "", "file that the link is written to instead, for its owner alone"},
			{"RAILHEAD_CONSOLE_REPORTS", "", "folder with the files of railhead prove --report, NAME.json; the console shows the newest result of each proof of the database that it reads. Of several cells each has its own, such as RAILHEAD_CONSOLE_REPORTS_WEST"},
		},
	}
}

func numberVariables() variables {
	return variables{
		title: "Numbers of a process",
		about: "Durations have a unit, such as 500ms.",
		list: []variable{
			{"RAILHEAD_POLL", "500ms", "relayer: how often it polls for due instructions while no notification arrives; 50ms to 1m"},
			{"RAILHEAD_COALESCE", "10ms", "relayer: how long a busy relayer collects instructions and answers for a turn; 0 to 1s"},
			{"RAILHEAD_CLAIM_MAX", "500", "relayer: instructions, and outcomes, of one turn; 1 to 5000"},
			{"RAILHEAD_HEARTBEAT_EVERY", "2s", "time between heartbeats, 10ms to 1m; a third of the setting heartbeat_stale if that is less"},
			{"RAILHEAD_REFRESH_EVERY", "5s", "relayer: how often profiles are read again; 10ms to 10m"},
			{"RAILHEAD_NOTIFIER_TEST_EVERY", "1m", "relayer: how often it tests that notifications arrive; 100ms to 1h"},
			{"RAILHEAD_STORE_TIMEOUT", "10s", "the longest that a transaction may take, 100ms to 100s; a reaper's may take three times as long"},
			{"RAILHEAD_REAP_EVERY", "5s", "reaper: time between turns; 10ms to 10m"},
			{"RAILHEAD_REAP_GRACE", "20s", "reaper: its wait after a start of the server; 10ms to 1h"},
			{"RAILHEAD_METRICS_EVERY", "5s", "how often the gauges that come from the database are read; 10ms to 10m"},
			{"GOGC", "400", "percent by which the heap may grow before garbage is collected"},
			{"GOMEMLIMIT", "512MiB", "size of the heap from which garbage is collected sooner"},
		},
	}
}

func budgetVariables() variables {
	return variables{
		title: "Assertions about the time budget",
		about: "The time budget is a setting of the cell: railhead settings. These change nothing. Where one is set and " +
			"differs from the " +
			"cell's setting, the process refuses to start.",
		list: []variable{
			{"RAILHEAD_CLAIM_TIMEOUT", "", "the setting claim_timeout"},
			{"RAILHEAD_START_WITHIN", "", "the setting start_within"},
			{"RAILHEAD_RECORD_WITHIN", "", "the setting record_within"},
			{"RAILHEAD_DRAIN", "", "the setting drain"},
			{"RAILHEAD_HEARTBEAT_STALE", "", "the setting heartbeat_stale"},
		},
	}
}

func traceVariables() variables {
	return variables{
		title: "Traces",
		about: "The standard variables of OpenTelemetry. With none of the first three set nothing is exported. Headers, " +
			"certificates, " +
			"batches and limits of the exporter are those of the OpenTelemetry SDK.",
		list: []variable{
			{"OTEL_EXPORTER_OTLP_ENDPOINT", "", "the collector; setting it enables traces"},
			{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "", "the same, for traces alone"},
			{"OTEL_TRACES_EXPORTER", "", "otlp enables traces without an endpoint (localhost then), none disables them"},
			{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "http/protobuf or grpc"},
			{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf", "the same, for traces alone"},
			{"OTEL_TRACES_SAMPLER", "parentbased_always_on", "which traces are kept; for a busy cell parentbased_traceidratio"},
			{"OTEL_TRACES_SAMPLER_ARG", "", "the sampler's argument, such as 0.01"},
			{"OTEL_SERVICE_NAME", "railhead-COMPONENT", "the name of the service in traces"},
			{"OTEL_RESOURCE_ATTRIBUTES", "", "attributes of every span"},
			{"OTEL_SDK_DISABLED", "", "true disables traces"},
		},
	}
}

func repositoryVariables() variables {
	return variables{
		title: "Tests, and programs that they need",
		about: "Read by make, by the scripts and tests of the repository and, where they concern PostgreSQL's programs, " +
			"by railhead dev.",
		list: []variable{
			{"RAILHEAD_PG_MAJOR", "any", "major version of PostgreSQL to run, 15 or later; make sets it from PG"},
			{"RAILHEAD_PG_BIN", "", "the one folder with PostgreSQL's programs to use"},
			{"RAILHEAD_PG_CACHE", "build/pg", "folder for PostgreSQL's programs that are downloaded; for root /var/cache/railhead/pg"},
			{"TEST_DATABASE_URL", "", "a superuser's connection string of a running server, which tests then use instead of a private one"},
			{"RAILHEAD_TEST_LOCALE", "", "ICU locale of the databases of tests"},
			{"RAILHEAD_PROMETHEUS_CACHE", "build/prometheus", "folder for Prometheus; for root /var/cache/railhead/prometheus"},
			{"RAILHEAD_WITHOUT_PROMETHEUS", "", "any value skips the tests that need Prometheus"},
			{"RAILHEAD_WITHOUT_CLIENTS", "", "any value skips the examples in Node and Python"},
			{"RAILHEAD_BROWSER_CACHE", "build/browser", "folder for Chromium and axe-core; for root /var/cache/railhead/browser"},
			{"RAILHEAD_WITHOUT_BROWSER", "", "any value skips the tests that need Chromium"},
			{"RAILHEAD_PGBOUNCER", "build/pgbouncer", "make faults: the program PgBouncer"},
			{"RAILHEAD_FAKETIME", "build/faketime", "make faults: the library libfaketime"},
		},
	}
}
