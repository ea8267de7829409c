# Recipes for everyday work: `just` lists them. Install: `pip install rust-just`, or your distribution's `just`.
# .ci/run is what judges a change; these are shortcuts.

set shell := ["bash", "-euo", "pipefail", "-c"]

# List the recipes
default:
    @just --list --unsorted

# All tests of the workspace (needs `just environment` once)
test *ARGS:
    cargo nextest run --workspace {{ ARGS }}

# Tests whose name contains NAME, with their output
one NAME *ARGS:
    cargo nextest run --workspace --no-capture {{ ARGS }} '{{ NAME }}'

# The lightest test: no root, Python or Node needed
first:
    cargo test -p belljar-protocol

# The environment `default`, which many tests use
environment:
    cargo run -p belljar -- env create

# Format and check everything that takes seconds
check:
    .ci/run fmt words book

# Everything generated: reference pages, OpenAPI, JSON Schema, types, SDK models, snapshots of printed texts
generate:
    .ci/generate

# Pages of evidence that take minutes: attacks and disk faults
generate-evidence:
    .ci/security-tests
    BELLJAR_WRITE_FAULTS=1 cargo nextest run -p belljar-server --test it -E 'test(faults::waits)'

# Benchmark against the references, in a release build
bench *ARGS:
    cargo run --release -p belljar -- bench {{ ARGS }}

# The documentation as a book, in target/book
book:
    .ci/book

# Format Rust, the SDKs and the web interface
fmt:
    cargo fmt --all
    cargo fmt --manifest-path fuzz/Cargo.toml
    ruff format sdk/python
    npm --prefix web run format
    npm --prefix sdk/typescript run format

# The whole CI, or some of its steps
ci *STEPS:
    .ci/run {{ STEPS }}
