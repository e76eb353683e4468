//! The executable: `burst` (the default), `serve`, and, hidden, the two functions it runs as its own children.

use std::process::ExitCode;

/// As the functions have it where they are deployed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    local::cli::main()
}
