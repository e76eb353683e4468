//! `batchctl prove`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use futures::stream::{self, StreamExt, TryStreamExt};
use protocol::batch::PartState;
use protocol::chain::ChainEnd;
use protocol::ids::{BatchKey, EventId, SourceArn};
use protocol::sequence::{HolderResolution, PartId, Sequence, SequenceScope, holder_resolution};
use protocol::text::counted;
use protocol::time::Timestamp;
use serde::Serialize;
use sinks::chain::{EventLine, tree_of};
use sinks::merkle::Tree;
use sinks::{Compression, ManifestStore, SinkError, events_name};

use crate::failure::{Done, Failure};
use crate::outcome::Output;
use crate::proofs::{PartLink, Proof, Read, follow, read};
use crate::service::{REQUESTS_MAX, Service};
use crate::times::{instant, utc};

#[derive(Args)]
pub struct ProveArgs {
    /// The event id, with its prefix if `EVENT_ID_PREFIX` is set
    #[arg(value_name = "EVENT-ID")]
    pub event: EventId,
    /// The ARN of the queue that the event came from
    #[arg(long, value_name = "ARN")]
    pub source: SourceArn,
    /// The batch key of the event, if `BATCH_KEY` is set
    #[arg(long, value_name = "KEY")]
    pub batch_key: Option<BatchKey>,
    /// The beginning of the time in which it may have been delivered, such as `2026-12-01T08:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Timestamp,
    /// The end of that time, which has passed
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub to: Timestamp,
    /// Read the files of the sink from this directory, which has a copy of all of them: for a sink that cannot be read from here
    #[arg(long, value_name = "DIRECTORY")]
    pub files: Option<PathBuf>,
    /// Write the proof to this new file
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
}

/// What was proven.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    kind: &'static str,
    file: PathBuf,
    /// The part that has the event, or the parts that do not.
    parts: Vec<String>,
    /// The numbers of the first and the last link that is there.
    first_number: u64,
    last_number: u64,
    /// When the last part took its number.
    last_taken_at: u64,
    last_chain_hash: String,
}

/// Writes a proof that an event was delivered, or that it was not.
pub async fn run(service: &Service, args: &ProveArgs, output: Output<'_>) -> Result<Done, Failure> {
    let (from, to) = (args.from.as_ms(), args.to.as_ms());
    if from > to || args.to > service.now() {
        return Err(Failure::Usage(format!(
            "`--from`, `--to`: got {} and {}, expected two times that have passed, the earlier one first",
            utc(args.from),
            utc(args.to)
        )));
    }
    let scope = SequenceScope {
        source: args.source.clone(),
        batch_key: args.batch_key.clone(),
    };
    let sink = match &args.files {
        Some(directory) => {
            let directory = std::path::absolute(directory).map_err(Failure::file(directory))?;
            format!("file://{}", directory.display())
        }
        None => service.required("SINK", "where parts go")?,
    };
    let store = ManifestStore::new(&service.sdk()?, &sink).map_err(Failure::Refused)?;
    let (end, unknown) = chain_end(service, &scope).await?;
    let (found, unlinked) = manifests(&store, &scope).await?;
    let links = follow(found, end).map_err(Failure::Refused)?;
    let aside = aside(service, &links.others).await?;
    let others = links.check_others(end, |part| aside.contains(&part));
    others.map_err(Failure::Refused)?;
    let range = links.between(from, to).map_err(Failure::Refused)?;
    let mut trees = Vec::new();
    let mut delivered = None;
    for index in range.clone() {
        let tree = tree(&store, &links.links[index]).await?;
        delivered = delivered.or_else(|| links.delivered(args.event.as_str(), index, &tree));
        trees.push(tree);
    }
    let (proof, of) = match delivered {
        Some(proof) => (proof, range),
        None => {
            if range.end == links.links.len()
                && let Some(unknown) = unknown
            {
                return Err(Failure::Refused(unknown));
            }
            let began_at = links.links.first().map(|link| link.fields.chain.taken_at);
            let meets = |at: &&Timestamp| {
                began_at.is_some_and(|began| began <= at.as_ms()) && **at <= args.to
            };
            if let Some(opened_at) = unlinked.iter().find(meets) {
                return Err(Failure::Refused(format!(
                    "a part of a batch that was opened at {} was delivered with `PROOF` off, and is in no link",
                    utc(*opened_at)
                )));
            }
            let proof = links.not_delivered(args.event.as_str(), range.clone(), &trees);
            (proof.map_err(Failure::Refused)?, range)
        }
    };
    write(&args.output, &proof)?;
    let last = links
        .links
        .last()
        .map_or(0, |link| link.fields.chain.number);
    let parts = links.links[of].iter().map(|link| link.id().to_string());
    let report = Report {
        kind: proof.kind,
        file: args.output.clone(),
        parts: parts.collect(),
        first_number: links
            .links
            .first()
            .map_or(0, |link| link.fields.chain.number),
        last_number: last,
        last_taken_at: end.taken_at.as_ms(),
        last_chain_hash: end.hash.to_string(),
    };
    output.print(&report, &report);
    Ok(Done::Yes)
}

/// Returns the last link of a scope, and why parts may have been delivered after it, if any may.
async fn chain_end(
    service: &Service,
    scope: &SequenceScope,
) -> Result<(ChainEnd, Option<String>), Failure> {
    let sequence = service.named_items.get::<Sequence>(scope).await?.value;
    let (mut end, mut last, mut waits) = (sequence.chain, sequence.last, false);
    if let Some(holder) = sequence.holder {
        let record = service.record(holder.batch).await?;
        match holder_resolution(holder, last, record.as_ref()) {
            HolderResolution::Delivered(chain) => end = chain.or(end),
            HolderResolution::Unused => last -= 1,
            HolderResolution::Waiting => (last, waits) = (last - 1, true),
        }
    }
    let end = end.ok_or_else(|| {
        Failure::NotFound(format!(
            "source `{}`: no part of it has a link: expected a source and batch key that had parts with `PROOF` on",
            scope.source
        ))
    })?;
    let unknown = match (waits, end.number < last) {
        (_, true) => Some(format!(
            "numbers {} to {last} were delivered without a link",
            end.number + 1
        )),
        (true, false) => Some(format!(
            "number {} is being delivered: try again once it has ended",
            last + 1
        )),
        (false, false) => None,
    };
    Ok((end, unknown))
}

/// Reads the manifests of a scope: those with links, and when the batches of the others were opened.
async fn manifests(
    store: &ManifestStore,
    scope: &SequenceScope,
) -> Result<(Vec<PartLink>, Vec<Timestamp>), Failure> {
    let paths = store
        .paths(scope.batch_key.as_ref())
        .await
        .map_err(sink_failed)?;
    let read_each = |path: String| async move {
        let manifest = store.read(&path).await.map_err(sink_failed)?;
        Ok::<_, Failure>(manifest.map(|manifest| (path, manifest)))
    };
    let read_all = stream::iter(paths).map(read_each).buffered(REQUESTS_MAX);
    let files: Vec<_> = read_all.try_collect().await?;
    let (mut links, mut unlinked) = (Vec::new(), Vec::new());
    for (path, manifest) in files.into_iter().flatten() {
        match read(&path, &manifest, scope).map_err(Failure::Refused)? {
            Read::Elsewhere => {}
            Read::Unlinked(opened_at) => unlinked.push(opened_at),
            Read::Linked(link) => links.push(*link),
        }
    }
    Ok((links, unlinked))
}

/// Returns those of these parts that were set aside.
async fn aside(service: &Service, links: &[PartLink]) -> Result<BTreeSet<PartId>, Failure> {
    let mut aside = BTreeSet::new();
    for link in links {
        let (id, record) = (link.id(), service.record(link.fields.batch_id).await?);
        let part = record.as_ref().and_then(|record| record.parts.get(id.part));
        if part.is_some_and(|part| part.state == PartState::SetAside) {
            aside.insert(id);
        }
    }
    Ok(aside)
}

/// Reads the list of events of a part, and compares it with its statement; compares the records too, if they are still there.
async fn tree(store: &ManifestStore, link: &PartLink) -> Result<Tree, Failure> {
    let (fields, number) = (&link.fields, link.fields.chain.number);
    let directory = link
        .path
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory);
    let path = format!("{directory}/{}", events_name(fields.part));
    let changed = |what: &str| Failure::Refused(format!("number {number} was changed: {what}"));
    let list = store.read(&path).await.map_err(sink_failed)?;
    let list = list.ok_or_else(|| {
        Failure::Refused(format!(
            "number {number}: its list of events `{path}` is missing"
        ))
    })?;
    let lines = serde_json::Deserializer::from_slice(&list).into_iter::<EventLine>();
    let lines: Result<Vec<EventLine>, _> = lines.collect();
    let tree = lines.ok().and_then(|lines| tree_of(&lines));
    let is_same = |tree: &Tree| {
        let root = protocol::chain::ChainHash::new(tree.root()).to_string();
        tree.leaves().len() as u64 == fields.chain.leaves && root == fields.chain.merkle_root
    };
    let tree = tree.filter(is_same);
    let tree = tree.ok_or_else(|| changed(&format!("`{path}` is not the list of its manifest")))?;
    let records = store
        .read(store.path_of(&fields.key))
        .await
        .map_err(sink_failed)?;
    let all = [Compression::None, Compression::Gzip, Compression::Zstd];
    let compression = all.into_iter().find(|one| one.name() == fields.compression);
    if let (Some(records), Some(compression)) = (records, compression)
        && compression
            .hash(&records[..])
            .map(|hash| hash.to_string())
            .ok()
            .as_ref()
            != Some(&fields.hash)
    {
        return Err(changed(&format!("`{}` has other content", fields.key)));
    }
    Ok(tree)
}

fn sink_failed(error: SinkError) -> Failure {
    Failure::Sink(error.to_string())
}

fn write(path: &PathBuf, proof: &Proof) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(proof).expect("it is plain data") + "\n";
    let mut file = File::create_new(path).map_err(Failure::file(path))?;
    file.write_all(text.as_bytes()).map_err(Failure::file(path))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.kind {
            "delivered" => writeln!(f, "delivered      the proof is in `{file}`")?,
            _ => writeln!(
                f,
                "not delivered  in {}, the proof is in `{file}`",
                counted(self.parts.len(), "part")
            )?,
        }
        writeln!(
            f,
            "chain          numbers {} to {}, whole",
            self.first_number, self.last_number
        )?;
        writeln!(f, "last hash      {}", self.last_chain_hash)?;
        let at = utc(Timestamp::from_ms(self.last_taken_at));
        writeln!(
            f,
            "               of number {}, which was taken at {at}; note it where nobody can change it",
            self.last_number
        )
    }
}
