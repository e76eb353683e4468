//! `loadgen audit`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use loadgen::{DuplicateRule, Manifests, Workload, WorkloadConfig};

use super::workload::WorkloadArgs;
use super::{FAILED, print};

#[derive(Args)]
pub struct AuditArgs {
    /// Directory that contains the directories of the batches
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// The service's `ON_DUPLICATE`, which says how often each event must be delivered
    #[arg(long, value_enum, default_value_t = DuplicateRule::Drop)]
    pub on_duplicate: DuplicateRule,
    /// Require a manifest beside every part, as the sinks `file:`, `s3:` and `sftp:` write it
    #[arg(long)]
    pub manifests: bool,
    /// Number of missing deliveries to accept
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub allow_missing: u64,
}

/// Audits, prints the report, and returns whether it is clean.
pub fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let workload = Workload::new(args.workload.config(WorkloadConfig::default().messages))?;
    let manifests = match args.manifests {
        true => Manifests::Required,
        false => Manifests::Optional,
    };
    let report = loadgen::audit(&args.dir, &workload, args.on_duplicate, manifests)?
        .allow_missing(args.allow_missing);
    print(&report)?;
    Ok(ExitCode::from(if report.ok() { 0 } else { FAILED }))
}
