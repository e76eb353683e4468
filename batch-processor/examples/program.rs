//! A sink that starts a program for each part and writes the bodies to its standard input, one a line.
//!
//! `IMPORT_PROGRAM` gets the idempotency key of the part as its argument, which is the same at every attempt. It exits
//! with 0 when it has the part, and with 75 (`EX_TEMPFAIL`) when it wants the part again. Any other code refuses the
//! part.

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
    run_with(|| {
        let program = std::env::var("IMPORT_PROGRAM")
            .map_err(|_| "`IMPORT_PROGRAM`: not set: expected the path of a program")?;
        Ok(Program(program))
    })
    .await
}
