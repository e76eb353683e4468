//! Finds the batches that a filter selects, and the one that a text names.

use std::collections::BTreeSet;

use aws::BatchSummary;
use futures::future::try_join_all;
use protocol::batch::{Listing, Status};
use protocol::ids::BatchId;
use protocol::time::Timestamp;

use crate::failure::Failure;
use crate::filter::Filter;
use crate::service::Service;

/// The shortest text that may stand for a batch id: the digits that all batches opened within a minute or so share.
const PREFIX_CHARS_MIN: usize = 4;
/// The most batches that one command looks at.
pub const BATCHES_MAX: usize = 10_000;

/// The batches that a filter selects.
#[derive(Debug, Default)]
pub struct Listed {
    /// The first of them, in the order in which they were opened.
    pub batches: Vec<BatchSummary>,
    /// How many there are.
    pub matching: usize,
    /// Errors about records that cannot be read.
    pub malformed: Vec<String>,
}

/// Returns the batches that `filter` selects, at most `max` of them. Queries the index, and reads the records of the batches
/// that are returned; with a filter by key or error, the records of all that the index shows.
pub async fn list(service: &Service, filter: &Filter, max: usize) -> Result<Listed, Failure> {
    let now = service.now();
    let mut ids = indexed(service, filter, now).await?;
    let mut listing = match filter.selects_complete() {
        true => completed(service, filter, now).await?,
        false => Listed::default(),
    };
    let (indexed, complete) = (ids.len(), listing.batches.len());
    if !filter.needs_records() {
        ids.truncate(max);
    }
    let read = service.catalogue.summaries(&ids).await?;
    let batches = read.summaries.into_iter();
    let fits = |batch: &BatchSummary| filter.fits(batch, now);
    listing.batches.extend(batches.filter(fits));
    listing.malformed.extend(read.malformed);
    listing.matching = match filter.needs_records() {
        true => listing.batches.len(),
        // A batch may have made progress since the index showed it, so this is what the index says.
        false => indexed + complete,
    };
    listing.batches.sort_unstable_by_key(|batch| batch.batch_id);
    listing.batches.truncate(max);
    listing.matching = listing.matching.max(listing.batches.len());
    Ok(listing)
}

/// Returns the ids that the index shows and that may be selected, oldest first.
async fn indexed(
    service: &Service,
    filter: &Filter,
    now: Timestamp,
) -> Result<Vec<BatchId>, Failure> {
    let queries = filter.listings().into_iter().map(|listing| {
        let due_before = filter.only_overdue(listing).then_some(now);
        service.catalogue.listed(listing, due_before)
    });
    let found = try_join_all(queries).await?;
    let found = found.into_iter().flatten();
    let fits = found.filter(|batch| filter.fits_index(batch.batch_id, batch.source.as_str(), now));
    // The index may show a batch under two statuses while it follows a change.
    let ids: BTreeSet<BatchId> = fits.map(|batch| batch.batch_id).collect();
    Ok(ids.into_iter().collect())
}

async fn completed(service: &Service, filter: &Filter, now: Timestamp) -> Result<Listed, Failure> {
    let younger_than = filter.younger_than.map(|age| now.saturating_sub(age));
    let since = younger_than.unwrap_or(Timestamp::EPOCH);
    let read = service.catalogue.complete(since).await?;
    let fits = |batch: &BatchSummary| filter.fits(batch, now);
    Ok(Listed {
        batches: read.summaries.into_iter().filter(fits).collect(),
        matching: 0,
        malformed: read.malformed,
    })
}

/// Returns the batch that a text names: by its id, or by the beginning of its id, if the batch is not complete and no other
/// begins so.
///
/// # Errors
/// No batch, or several, have such an id.
pub async fn resolve(service: &Service, text: &str) -> Result<BatchId, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    if text.is_empty() {
        return Err(Failure::Usage(
            "batch id: empty: expected a UUID, or its first characters".to_owned(),
        ));
    }
    let is_prefix =
        text.len() >= PREFIX_CHARS_MIN && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !is_prefix {
        return Err(Failure::Usage(format!(
            "batch id: malformed: got `{text}`, expected a UUID, or {PREFIX_CHARS_MIN} or more of its first characters"
        )));
    }
    let text = text.to_ascii_lowercase();
    let all = Status::ALL.map(Listing::Status);
    let all = all.map(|listing| service.catalogue.listed(listing, None));
    let all = try_join_all(all).await?;
    let ids = all.iter().flatten().map(|batch| batch.batch_id);
    let matching: BTreeSet<BatchId> = ids.filter(|id| id.to_string().starts_with(&text)).collect();
    match (matching.first(), matching.len()) {
        (Some(id), 1) => Ok(*id),
        (Some(_), count) => Err(Failure::Usage(format!(
            "batch id: ambiguous: got `{text}`, with which {count} batches begin, expected more characters"
        ))),
        (None, _) => Err(Failure::NotFound(format!(
            "batch `{text}…`: not found among incomplete batches; for a complete one, give the whole id"
        ))),
    }
}
