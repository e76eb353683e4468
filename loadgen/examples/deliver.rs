//! Writes what a service would deliver of a burst, in place of the service: to try `loadgen audit` on large bursts.
//!
//! ```sh
//! cargo run --release -p loadgen --example deliver -- --dir /tmp/deliveries --messages 1000000 --duplicates 5 --on-duplicate requeue
//! cargo run --release -p loadgen -- audit --dir /tmp/deliveries --messages 1000000 --duplicates 5 --on-duplicate requeue --size 200
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;
use loadgen::{Duplicates, Sizes, Workload, WorkloadConfig, WorkloadMessage};

/// The number of events of a batch.
const BATCH_EVENTS: u64 = 50_000;
/// Fast rather than small.
const ZSTD_LEVEL: i32 = 1;

#[derive(Parser)]
struct Deliver {
    /// Directory for the batches; must not exist
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    messages: u64,
    #[arg(long, default_value = "0")]
    duplicates: Duplicates,
    #[arg(long, default_value = "200")]
    size: Sizes,
    /// `drop` delivers each event once, `requeue` each message
    #[arg(long, default_value = "drop", value_parser = ["drop", "requeue"])]
    on_duplicate: String,
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

fn main() -> anyhow::Result<()> {
    let args = Deliver::parse();
    fs::create_dir(&args.dir).with_context(|| format!("create `{}`", args.dir.display()))?;
    let workload = Workload::new(WorkloadConfig {
        messages: args.messages,
        duplicates: args.duplicates,
        sizes: args.size,
        ..WorkloadConfig::default()
    })?;
    // The first messages of all events, the second ones, and so on: an event is never twice in one batch.
    let mut rounds: Vec<Batches> = Vec::new();
    let mut delivered = vec![0u16; workload.unique() as usize];
    for index in 0..workload.len() {
        let round = &mut delivered[workload.event_number(index) as usize];
        if *round > 0 && args.on_duplicate == "drop" {
            continue;
        }
        let (at, name) = (usize::from(*round), format!("round-{round}"));
        *round += 1;
        if rounds.len() == at {
            rounds.push(Batches::default());
        }
        rounds[at].add(&args.dir, &name, index, &workload.message(index))?;
    }
    rounds.iter_mut().try_for_each(Batches::finish)
}
