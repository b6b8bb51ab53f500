# Short names for commands that also work without `just`. `./test --list` names every part.

# Lists the recipes.
default:
    @just --list

# Runs the executable.
run *arguments:
    cargo run --locked --package gatelodge -- {{arguments}}

# Runs the cheap checks: format, spelling, layering, dependencies, lints, documentation.
check:
    ./test fmt spelling layering deps clippy doc

# Runs all Rust tests and the examples in the documentation.
test:
    ./test unit

# Shows changed snapshots one by one; needs `cargo-insta`.
snap:
    cargo insta test --workspace --review

# Runs the fuzz targets for a minute.
fuzz:
    GATELODGE_FUZZ_SECONDS=60 cargo test --profile quick --locked --package gatelodge-fuzz

# Checks the dependencies between crates.
layering:
    ./test layering

# Writes the pages that are made from the program.
docs:
    cargo run --locked --package gatelodge -- docs config > docs/config.md
    cargo run --locked --package gatelodge -- docs cli > docs/cli.md
    cargo run --locked --package gatelodge -- docs clients > docs/clients.md
