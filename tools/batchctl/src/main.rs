//! The command `batchctl`: see `batchctl --help`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    batchctl::cli::main().await
}
