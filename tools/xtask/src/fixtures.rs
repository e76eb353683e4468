//! Records what a former version of the functions stores, as fixtures for the tests of the versions after it.

use std::process::Command;

use crate::former::{self, LAST_RELEASE};
use crate::tools::{cargo, root, run_cargo};

#[derive(clap::Args)]
pub struct RecordFixtures {
    /// The revision whose functions are run
    #[arg(long, value_name = "REV", default_value = LAST_RELEASE)]
    from: String,
}

/// Runs the functions of the revision through the scenes in `tests/e2e/fixtures`, and writes what they stored into
/// `tests/fixtures/<version>`, one file a scene.
///
/// # Errors
/// The revision does not build, or a scene does not come to its end.
pub fn run(record: &RecordFixtures) -> anyhow::Result<()> {
    let former = former::build(&record.from)?;
    // The scenes need `local`, which the tests do not build.
    cargo(&["build", "--workspace", "--all-targets"])?;
    let folder = root()?.join("tests/fixtures").join(&former.version);
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--workspace", "--test", "e2e", "fixtures::record"]);
    test.args(["--", "--ignored", "--test-threads", "1"]);
    test.env("RECORD_FIXTURES", &folder);
    test.env("FORMER_AGGREGATOR", &former.aggregator);
    test.env("FORMER_BATCH_PROCESSOR", &former.batch_processor);
    run_cargo(&mut test)?;
    eprintln!("recorded in {}", folder.display());
    Ok(())
}
