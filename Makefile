# One line per target: `make help`.
CARGO ?= cargo
SHELL := bash
comma := ,

.DEFAULT_GOAL := help
.PHONY: help demo check test sim soak bench lint docs

help: ## List the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 8

demo: ## See it work: a small shop, its outbox and two subscriptions (ARGS="--seconds 60", or ARGS=--dashboard to watch it in the browser)
	$(CARGO) run --profile demo -p postrider-cli --no-default-features --features sqlite$(if $(findstring --dashboard,$(ARGS)),$(comma)dashboard) -- demo $(ARGS)

check: ## The edit loop, in minutes: format, lints, unit tests, SQLite, simulator, one PostgreSQL
	$(CARGO) fmt --all --check
	$(CARGO) clippy -q --workspace --all-targets --all-features -- -D warnings
	$(CARGO) run -q -p xtask -- test quick

test: ## Run every test; the last line counts them (REQUIRE_ALL=1: skipping is failing)
	$(CARGO) run -q -p xtask -- test

sim: ## Run the simulator (SEEDS=0..10000, or SEED=42 to replay one history)
	$(CARGO) run -q --profile sim -p postrider-testkit --features sim --bin sim -- $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),0..10000))

soak: ## Run the long programs and keep their figures in docs/figures
	$(CARGO) run --release -q -p xtask -- soak

bench: ## Measure how fast a backlog drains (ARGS="--db postgres --keys 20")
	$(CARGO) run --release -q -p postrider-cli --features bench -- bench drain $(ARGS)

lint: ## Check format, lints, docs, tidiness and dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy -q --workspace --all-targets --all-features -- -D warnings
	for one in "" sqlite postgres mysql sea-orm actions; do $(CARGO) clippy -q -p postrider --no-default-features --features "$$one" -- -D warnings || exit 1; done
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc -q --workspace --all-features --no-deps
	$(CARGO) run -q -p xtask -- tidy
	@$(CARGO) deny --version >/dev/null 2>&1 || { echo "cargo-deny is missing: cargo install cargo-deny --locked --version 0.20.2"; exit 1; }
	$(CARGO) deny --log-level error check licenses bans sources

docs: ## Build the reference documentation, and the book where mdbook is installed
	$(CARGO) doc --workspace --all-features --no-deps
	@if command -v mdbook >/dev/null; then mdbook build docs; else echo "the book is in docs/src; to build it: cargo install mdbook --locked"; fi
