# Targets carry their help after "##"; `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

GO  ?= go
BIN := build/bin
# What `make test` runs, and how: make test PKG=./ledger/... ARGS='-run Claim -v'
PKG  ?= ./...
ARGS ?=
TEST_TIMEOUT ?= 30m
FORM_only := --long
FORM_no := --merge
# Major version of PostgreSQL, for example PG=18; empty is any that is found.
PG ?=
# Where test servers keep their data, which need not outlive them: in memory where there is room, as databases are made and
# dropped several times faster there. PG_ROOT=/tmp flushes to the disk.
PG_ROOT ?= $(shell scripts/pg-root.sh)
ifneq ($(PG),)
export RAILHEAD_PG_MAJOR := $(PG)
endif

# Without paths in them, compiled packages are the same in every checkout and for every command here: each is compiled once.
# In a checkout of another account git refuses to answer, and go build then fails on stamping the version.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS 2>/dev/null)) -trimpath \
  $(shell git rev-parse HEAD >/dev/null 2>&1 || echo -buildvcs=false))

# The commit of a build that Go does not stamp (GOFLAGS=-buildvcs=false); empty outside a checkout.
COMMIT = $(shell git rev-parse HEAD 2>/dev/null && { test -z "$$(git status --porcelain)" || echo with changes; })
STAMP = -ldflags "-X 'main.commit=$(COMMIT)'"
PGRUN := $(BIN)/pgrun
TESTBED := $(BIN)/testbed
# Says how long a recipe took, whatever became of it.
TIMED = trap 'printf "make %s: %d s\n" $@ "$$SECONDS" >&2' EXIT;

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  make test PKG=./ledger/... ARGS='-run Claim -v' PG=18"

##@ To run it

.PHONY: run
run: programs $(if $(DATABASE_URL),,postgres) $(if $(filter nats kafka,$(RAIL)),$(TESTBED)) ## Run everything here, pay a sample, stay up (ONCE=1: end then; RAIL=nats: to a stream; RAIL=kafka: to a fake of Kafka; DATABASE_URL: on that server; ARGS)
	exec $(BIN)/railhead dev $(if $(ONCE),--once) $(if $(RAIL),--rail $(RAIL)) $(ARGS)

.PHONY: build
build: ## Build every command into build/bin
	@mkdir -p $(BIN)
	@$(TIMED) $(GO) build $(STAMP) -o $(BIN)/ ./...; $(MAKE) --no-print-directory $(TESTBED)

.PHONY: programs
programs:
	@mkdir -p $(BIN)
	$(GO) build $(STAMP) -o $(BIN)/ ./cmd/railhead ./cmd/railsim

.PHONY: pgrun
pgrun:
	@mkdir -p $(BIN)
	@$(GO) build -o $(PGRUN) ./internal/test/pgserver/pgrun

.PHONY: $(TESTBED)
$(TESTBED):
	@mkdir -p $(BIN)
	@$(GO) -C testbed build -o ../$(TESTBED) ./cmd/testbed

.PHONY: clean
clean: ## Remove what build has made (a downloaded PostgreSQL stays in build/pg)
	rm -rf $(BIN)

##@ To change it

.PHONY: check
check: postgres ## Check what a developer changes all day, within 90 seconds: format, vet, and the quick tests of the product (ARGS, PG)
	@$(TIMED) GO=$(GO) $(PGRUN) $(if $(PG_ROOT),-root $(PG_ROOT)) -- scripts/check.sh $(ARGS)

.PHONY: test
test: postgres $(if $(filter ./... ./alerts% ./testbed/... ./testbed/alertdrill%,$(PKG)),prometheus) $(if $(filter ./... ./ledger% ./ingest%,$(PKG)),clients-if-any) $(if $(filter ./... ./testbed/... ./testbed/browser% ./testbed/alertdrill%,$(PKG)),browser-if-any) ## Run the tests of every module in short, about 10 minutes, on one private PostgreSQL (MERGE=1: all that .ci/run runs; LONG=1: whole; LONG=only: what MERGE leaves out; PKG: those alone, whole, but with LONG=no as by MERGE; ARGS, PG)
	@$(TIMED) GO=$(GO) $(PGRUN) $(if $(PG_ROOT),-root $(PG_ROOT)) -- scripts/test.sh $(or $(FORM_$(LONG)),$(if $(LONG)$(filter-out ./...,$(PKG)),,$(if $(MERGE),--merge,--short))) '$(PKG)' -count=1 -timeout $(TEST_TIMEOUT) $(ARGS)

.PHONY: lint
lint: ## Check gofmt, go fix, go vet and staticcheck in every module (PKG)
	@$(TIMED) GO=$(GO) PKG='$(PKG)' scripts/lint.sh

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what we call, in every module
	@$(TIMED) GO=$(GO) PKG='$(PKG)' scripts/vuln.sh

.PHONY: migration
migration: ## Write the next number of the schema: each changed function and view, as its whole text (NAME=words_of_it BARE=1 SERVES=14)
	@$(GO) run ./migrations/next -name '$(NAME)' $(if $(SERVES),-serves $(SERVES)) $(if $(BARE),-bare)

##@ To change what decides about money: run what your change touches

.PHONY: money
money: postgres $(TESTBED) ## Pay 10,000 instructions with random faults, then as many without; count by the banks' ledgers (PAYMENTS, SEED)
	@$(TIMED) $(TESTBED) money $(if $(PAYMENTS),-payments $(PAYMENTS)) $(if $(SEED),-seed $(SEED))

.PHONY: api
api: programs postgres $(TESTBED) ## Kill API, database and relayer under callers over HTTP whose answers are lost; count by the bank's ledger (PAYMENTS, SEED)
	@$(TIMED) $(TESTBED) api $(if $(PAYMENTS),-payments $(PAYMENTS)) $(if $(SEED),-seed $(SEED))

.PHONY: events
events: postgres $(TESTBED) ## Tell an endpoint that loses answers, under kills, an open transaction and a failover; count by its journal (MINUTES=6 OPEN=3 SEED)
	@$(TIMED) $(TESTBED) events -minutes $(or $(MINUTES),6) -open $(or $(OPEN),3) $(if $(SEED),-seed $(SEED))

.PHONY: brokers
brokers: programs postgres $(TESTBED) ## Kill relayers, brokers and consumers of two rails, NATS and kafka=fake; count by the brokers' logs and the consumers' ledger (PAYMENTS, SEED)
	@$(TIMED) $(TESTBED) brokers $(if $(PAYMENTS),-payments $(PAYMENTS)) $(if $(SEED),-seed $(SEED))

.PHONY: recovery
recovery: postgres $(TESTBED) ## Kill the only relayer KILLS (20) times, and measure how long its payments wait for their next decision
	@$(TIMED) $(TESTBED) recovery -kills $(or $(KILLS),20) $(if $(SEED),-seed $(SEED))

.PHONY: faults
faults: postgres $(TESTBED) ## Break whole installations on purpose: every fault, SEEDS seeds each (FAULT=pattern SEED=first LANES=2 ANY_BUILD=1)
	@scripts/install-fault-tools.sh || true # without them some faults fail, and say so
	@$(TIMED) $(TESTBED) faults -seeds $(or $(SEEDS),2) $(if $(SEED),-seed $(SEED)) $(if $(FAULT),-fault '$(FAULT)') $(if $(LANES),-lanes $(LANES)) $(if $(ANY_BUILD),-any-build)

.PHONY: nemesis
nemesis: postgres $(TESTBED) ## Mix every fault that can be mixed on one installation for MINUTES (30), with SEED (drawn) and RATE payments a second
	@$(TIMED) $(TESTBED) nemesis -minutes $(or $(MINUTES),30) $(if $(SEED),-seed $(SEED)) $(if $(RATE),-rate $(RATE))

.PHONY: ha
ha: postgres $(TESTBED) ## Lose the primary of a highly available cell FAILOVERS (20) times under traffic, in every way (SEED, BREAK='words of one way')
	@scripts/install-ha.sh >/dev/null
	@$(TIMED) $(TESTBED) ha -failovers $(or $(FAILOVERS),20) $(if $(SEED),-seed $(SEED)) $(if $(BREAK),-break '$(BREAK)')

.PHONY: cells
cells: programs postgres $(TESTBED) ## Break four cells on two PostgreSQLs under traffic while buckets change their cell; count by the banks' ledgers (SEED ARGS='-lasting 10m')
	@$(TIMED) $(TESTBED) cells $(if $(SEED),-seed $(SEED)) $(ARGS)

.PHONY: mutants
mutants: postgres $(TESTBED) ## Take each guard out of a copy, and see what notices (MUTANT=pattern LANES=2 AGAIN=1: also what was caught with this very code)
	@$(TIMED) $(TESTBED) mutants $(if $(MUTANT),-mutant '$(MUTANT)') $(if $(LANES),-lanes $(LANES)) $(if $(PG_ROOT),-temp $(PG_ROOT)) $(if $(AGAIN),-evidence '')

.PHONY: late-matrix
late-matrix: postgres ## Bring every kind of late evidence to every state of a payment (ONE_OF=10: one of so many combinations)
	@mkdir -p $(BIN) && rm -f $(BIN)/late-matrix.txt
	@$(TIMED) status=0; $(PGRUN) $(if $(PG_ROOT),-root $(PG_ROOT)) -- $(GO) -C testbed test -count=1 -timeout 2h ./latematrix -run '^TestLateMatrix$$' \
	  -args -one-of $(or $(ONE_OF),1) -account $(CURDIR)/$(BIN)/late-matrix.txt || status=$$?; \
	  cat $(BIN)/late-matrix.txt; exit $$status

##@ To change what auditors and people on call rely on

.PHONY: offences
offences: postgres ## Break a cell in every way of proofs/offences.yaml, and see the proof that must notice
	@mkdir -p $(BIN) && rm -f $(BIN)/offences.txt
	@$(TIMED) status=0; $(GO) test -count=1 -timeout $(TEST_TIMEOUT) ./proofs -run '^TestOffences$$' -args -account $(CURDIR)/$(BIN)/offences.txt || status=$$?; \
	  cat $(BIN)/offences.txt; exit $$status

.PHONY: alerts
alerts: programs postgres prometheus $(TESTBED) ## Break a running Railhead in one way for each alert; see it fire and resolve in Prometheus (FAULT='alert|alert' ARGS=-short)
	@scripts/install-faketime.sh >/dev/null
	@$(TIMED) $(TESTBED) alerts -binaries $(BIN) $(if $(FAULT),-fault '$(FAULT)') $(ARGS)

.PHONY: journeys
journeys: pgrun ## Type what newcomers type, as a caller, on call and as an auditor, on a make run of its own
	@$(TIMED) testbed/journeys/run.sh

.PHONY: console
console: programs postgres browser $(TESTBED) ## Go through every page, act and login of the console with a headless Chromium, by mouse, by keyboard and without JavaScript (HAND=mouse, keyboard or no-scripts)
	@$(TIMED) $(TESTBED) console -binaries $(BIN) $(if $(PG_ROOT),-data $(PG_ROOT)) $(if $(HAND),-hand $(HAND))

.PHONY: console-clicks
console-clicks: programs postgres browser $(TESTBED) ## Break a running Railhead as make alerts does; find each cause, runbook and act within five clicks of the console's first page (FAULT='alert|alert' ARGS=-short)
	@scripts/install-faketime.sh >/dev/null
	@$(TIMED) $(TESTBED) console-clicks -binaries $(BIN) $(if $(PG_ROOT),-data $(PG_ROOT)) $(if $(FAULT),-fault '$(FAULT)') $(ARGS)

.PHONY: screenshots
screenshots: programs postgres browser $(TESTBED) ## Take pictures of the pages of the console in three widths, light and dark, into build/screenshots (HEIGHT=2400)
	@$(TIMED) $(TESTBED) screenshots -binaries $(BIN) $(if $(PG_ROOT),-data $(PG_ROOT)) $(if $(HEIGHT),-height $(HEIGHT))

##@ Before a release

.PHONY: fuzz
fuzz: ## Fuzz each decoder of what comes from outside, for TIME (1m) each (FUZZ=pattern)
	@$(TIMED) GO=$(GO) scripts/fuzz.sh $(or $(TIME),1m) $(if $(FUZZ),'$(FUZZ)')

.PHONY: nightly
nightly: ## Run the long forms of all this, about five hours (ONLY='faults mutants'; LIST=1: say which there are)
	@scripts/nightly.sh $(if $(LIST),--list) $(ONLY)

.PHONY: figures
figures: $(TESTBED) ## Put the figures of build/evidence into docs/reliability.md
	$(TESTBED) faults -into docs/reliability.md

##@ To measure it

.PHONY: bench-build
bench-build:
	@mkdir -p $(BIN)
	cd bench && $(GO) build -o ../$(BIN)/ . ./cmd/scale

.PHONY: bench
bench: postgres bench-build ## Measure Railhead, River, graphile-worker and bare SQL, about an hour (MODES=drain,e2e ARGS=-quick)
	@$(TIMED) $(BIN)/bench $(if $(MODES),-modes $(MODES)) $(ARGS)

.PHONY: bench-against
bench-against: postgres bench-build ## Compare what a payment costs with the revision REV, about 15 min (ROUNDS=7 ARGS='-most 1.03 -quick')
	@$(TIMED) GO=$(GO) $(BIN)/bench -against '$(or $(REV),$(error name the revision to compare with: make bench-against REV=732813a))' \
	  $(if $(ROUNDS),-rounds $(ROUNDS)) $(ARGS)

.PHONY: bench-scale
bench-scale: postgres bench-build ## Measure Railhead with 0, 1 and 10 million rows in its archive (ARGS=-archive=0,1000000)
	@$(TIMED) $(BIN)/bench -scale $(ARGS)

.PHONY: scale
scale: postgres bench-build ## Measure 1, 2, 4 and 8 cells, judge a simulation by them, predict up to 1,000,000 payments a second, about 15 min (ROUNDS=6 ARGS='-cores 32')
	@$(TIMED) $(BIN)/scale $(if $(ROUNDS),-rounds $(ROUNDS)) $(ARGS)

.PHONY: console-scale
console-scale: programs postgres browser $(TESTBED) ## Measure how soon pages of the console are painted with 10 million rows in the archive (SIZE=rows)
	@$(TIMED) $(TESTBED) console-scale -binaries $(BIN) $(if $(SIZE),-rows $(SIZE))

.PHONY: bench-cores
bench-cores: postgres bench-build ## Measure drain and e2e on 1, 2, 4, ... cores, on a machine that has 8 (ARGS=-quick: 2)
	@$(TIMED) $(BIN)/bench -modes cores $(ARGS)

.PHONY: bench-smoke
bench-smoke: postgres ## Test the benchmark: its arithmetic, and a tiny round of every mode
	@$(TIMED) $(GO) -C bench test -count=1 -timeout 5m $(ARGS) ./...

.PHONY: bench-docs
bench-docs: bench-build ## Put the kept figures into docs/performance.md and docs/scale.md
	$(BIN)/bench -docs
	$(BIN)/scale -docs

##@ What tests need; they fetch it themselves

.PHONY: postgres
postgres: pgrun ## Make sure that there is a PostgreSQL to run (PG=18: of that version)
	@$(PGRUN) -find 2>/dev/null || scripts/install-postgres.sh $(PG)
	@$(PGRUN) -find >/dev/null

# Installed where what is tested needs it; RAILHEAD_WITHOUT_PROMETHEUS=1 goes without. A test that does not find it fails.
.PHONY: prometheus
prometheus: ## Make sure that there is a Prometheus for the tests of the alerts
	@$(if $(RAILHEAD_WITHOUT_PROMETHEUS),true,scripts/install-prometheus.sh >/dev/null || \
	  { echo 'RAILHEAD_WITHOUT_PROMETHEUS=1 goes without the tests that need it' >&2; exit 1; })

.PHONY: browser
browser: ## Make sure that there are a Chromium and axe-core for the tests of the console
	@scripts/install-browser.sh >/dev/null

.PHONY: clients
clients: ## Fetch the clients of Node and Python for the examples of docs/ingest.md, and what clients/ is built with
	@scripts/install-clients.sh >/dev/null

# The tests of the browser are skipped where none can be had; make console and .ci/run ask for it.
.PHONY: browser-if-any
browser-if-any:
	@$(if $(RAILHEAD_WITHOUT_BROWSER),true,scripts/install-browser.sh >/dev/null || \
	  echo 'test: tests of the browser will be skipped' >&2)

# The examples in other languages are skipped where their clients can't be had; .ci/run asks for them.
.PHONY: clients-if-any
clients-if-any:
	@$(if $(RAILHEAD_WITHOUT_CLIENTS),true,scripts/install-clients.sh >/dev/null || \
	  echo 'test: examples of docs/ingest.md in Node or Python will be skipped' >&2)
