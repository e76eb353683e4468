//! The executable `batch-local`. Its commands are `burst` (the default) and `serve`; a hidden one runs a function as a child
//! process.

use std::process::ExitCode;

/// The allocator of the deployed functions, so that their CPU time and memory are comparable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    local::cli::main()
}
