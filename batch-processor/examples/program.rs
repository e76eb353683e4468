//! A sink of your own: the bodies of each part, a line each, on the standard input of a program.
//!
//! `IMPORT_PROGRAM` is given the part's key as its argument, which is the same whenever the part comes again. It exits
//! with 0 when it has the part, with 75 (`EX_TEMPFAIL`) to be given it again; anything else is a refusal.

use std::process::Stdio;

use batch_processor::{Error, Part, Receipt, Sink, SinkError, async_trait, run_with};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const TEMPORARY_FAILURE: i32 = 75;

struct Program(String);

impl Program {
    async fn import(&self, part: &Part) -> std::io::Result<Option<i32>> {
        let mut program = Command::new(&self.0)
            .arg(part.key())
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut input) = program.stdin.take() {
            for item in &part.items {
                input.write_all(item.body.as_bytes()).await?;
                input.write_all(b"\n").await?;
            }
        }
        Ok(program.wait().await?.code())
    }
}

#[async_trait]
impl Sink for Program {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        match self.import(part).await {
            Ok(Some(0)) => Ok(Receipt::new(format!("imported by {}", self.0))),
            Ok(Some(TEMPORARY_FAILURE) | None) => Err(SinkError::Retryable {
                reason: format!("`{}` cannot take it now", self.0),
            }),
            Ok(Some(code)) => Err(SinkError::Permanent {
                reason: format!("`{}` exited with {code}", self.0),
            }),
            Err(error) => Err(SinkError::Retryable {
                reason: format!("`{}`: {error}", self.0),
            }),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let program = std::env::var("IMPORT_PROGRAM").map_err(|_| "`IMPORT_PROGRAM` is not set")?;
    run_with(Program(program)).await
}
