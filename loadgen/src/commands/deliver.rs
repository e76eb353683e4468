//! `loadgen deliver`: writes what a service would deliver of a burst, to try and to measure `loadgen audit`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use loadgen::{DuplicateRule, Workload, WorkloadConfig, WorkloadMessage};

use super::workload::WorkloadArgs;

/// The number of events of a batch.
const BATCH_EVENTS: u64 = 50_000;
/// Fast rather than small.
const ZSTD_LEVEL: i32 = 1;

#[derive(Args)]
pub struct DeliverArgs {
    /// Directory for the batches; must not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    workload: WorkloadArgs,
    /// The `ON_DUPLICATE` of the service
    #[arg(long, value_enum, default_value_t = DuplicateRule::Drop)]
    on_duplicate: DuplicateRule,
}

/// Batches one after the other, each with one part. No event is in two of them.
#[derive(Default)]
struct Batches {
    part: Option<zstd::Encoder<'static, File>>,
    id: String,
    events: u64,
}

impl Batches {
    fn add(
        &mut self,
        dir: &Path,
        name: &str,
        index: u64,
        message: &WorkloadMessage,
    ) -> anyhow::Result<()> {
        let seq = self.events % BATCH_EVENTS;
        if seq == 0 {
            self.finish()?;
            self.id = format!("{name}-{:06}", self.events / BATCH_EVENTS);
            let batch = dir.join(&self.id);
            fs::create_dir_all(&batch)?;
            let file = File::create(batch.join("0.jsonl.zst"))?;
            self.part = Some(zstd::Encoder::new(file, ZSTD_LEVEL)?);
        }
        self.events += 1;
        let line = serde_json::json!({
            "batchId": self.id, "part": 0, "seq": seq, "eventId": message.event_id,
            "sqsMessageId": format!("{index:08x}-0000-4000-8000-{:012x}", index * 7919),
            "source": "arn:aws:sqs:eu-west-1:000000000000:input", "sentAt": 1, "body": message.body,
        });
        let part = self.part.as_mut().context("a batch is open")?;
        writeln!(part, "{line}").context("write a part")
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if let Some(part) = self.part.take() {
            part.finish()?;
        }
        Ok(())
    }
}

/// Writes the batches.
pub fn run(args: &DeliverArgs) -> anyhow::Result<ExitCode> {
    fs::create_dir(&args.dir).with_context(|| format!("create `{}`", args.dir.display()))?;
    let workload = Workload::new(args.workload.config(WorkloadConfig::default().messages))?;
    // The first messages of all events, the second ones, and so on: an event is never twice in one batch.
    let mut rounds: Vec<Batches> = Vec::new();
    let mut delivered = vec![0u16; workload.unique() as usize];
    for index in 0..workload.len() {
        let round = &mut delivered[workload.event_number(index) as usize];
        if *round > 0 && args.on_duplicate == DuplicateRule::Drop {
            continue;
        }
        let (at, name) = (usize::from(*round), format!("round-{round}"));
        *round = round
            .checked_add(1)
            .context("deliver an event more than 65535 times")?;
        if rounds.len() == at {
            rounds.push(Batches::default());
        }
        rounds[at].add(&args.dir, &name, index, &workload.message(index))?;
    }
    rounds.iter_mut().try_for_each(Batches::finish)?;
    Ok(ExitCode::SUCCESS)
}
