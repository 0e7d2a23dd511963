# make up      build and run a hub and a spoke
# make test    install what the tests need and run them
# make help    the rest
.DEFAULT_GOAL := build
SHELL := /bin/bash
GO ?= go
SEEDS ?= 300
SCALE ?= 1
# REQUIRE=1 makes a test fail where it would skip for want of a tool; CI sets it.
REQUIRE ?=
ifneq ($(REQUIRE),)
export SPOKEFS_REQUIRE_TOOLS = 1
endif
export CGO_ENABLED ?= 0

.PHONY: help build up demo test race sim fuzz bench lint clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: ## bin/spokefs
	$(GO) build -trimpath -o bin/spokefs ./cmd/spokefs

up: build ## build and run a hub and a spoke in one process (UP="--wan 40ms,200mbit")
	./bin/spokefs up $(UP)

demo: build ## load a tree at a hub, read it at a spoke, check every byte (DEMO="DIR --json")
	./bin/spokefs demo $(DEMO)

# -count=1: the cache of go test does not see the program that e2e builds.
test: build ## install what the tests need, run all of them
	tools=$$(e2e/tools.sh) && eval "$$tools" && $(GO) test -count=1 -timeout 30m ./... && $(MAKE) race

race: ## the race detector on everything short
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m ./fabric/... ./cache/... ./storage/... ./prefetch/... ./protocols/... ./cmd/...

sim: ## seeded simulation and random operations; SEED=n replays one seed, SEEDS=n runs that many
	SPOKEFS_SEED=$(SEED) SPOKEFS_SEEDS=$(SEEDS) $(GO) test -count=1 -v -run 'TestSim' ./fabric/rights ./fabric/namespace
	SPOKEFS_SEED=$(SEED) SPOKEFS_SEEDS=$(SEEDS) $(GO) test -count=1 -run 'TestRandom|TestRace' ./fabric/memfs ./fabric/spoke

fuzz: ## every fuzz target for FUZZTIME (10s)
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p 2>/dev/null | grep ^Fuzz); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-10s} $$p || exit 1; done; done

# A trial on a smaller data set does not touch the page.
bench: build ## the figures to reach, into docs/benchmarks.md (SCALE=0.05: a trial; BENCH="more flags")
	cd e2e/bench/gonfs && $(GO) build -trimpath -o ../../../bin/gonfs .
	$(GO) build -trimpath -o bin/bench ./e2e/bench/run
	tools=$$(e2e/tools.sh bench) && eval "$$tools" && ./bin/bench -scale $(SCALE) -gonfs bin/gonfs \
		$(if $(filter 1,$(SCALE)),-page docs/benchmarks.md) $(BENCH)

lint: ## gofmt, vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$')); [ -z "$$out" ] || { echo "not gofmt-ed: $$out"; exit 1; }
	$(GO) vet ./...
	tools=$$(e2e/tools.sh lint) && eval "$$tools" && $$SPOKEFS_STATICCHECK ./...

clean: ## what make made
	rm -rf bin
