//! The executable: `burst` (the default), `serve`, and, hidden, the two functions it runs as its own children.

use std::process::ExitCode;

fn main() -> ExitCode {
    local::cli::main()
}
