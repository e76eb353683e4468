//! Claims and releases by `BatchExecuteStatement`: 25 conditional writes in one request.
//!
//! Statements of a request run independently, and their results are in the order of the statements. A refused `INSERT`
//! does not return the existing item (`ClaimReply::Exists(None)`).

use std::collections::BTreeMap;
use std::iter::repeat_with;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementError, BatchStatementRequest, BatchStatementResponse,
};
use protocol::claim::Claim;
use protocol::ids::{EventId, SeatKey};
use shared::ports::{ClaimReply, PortError, Release, ReleaseReply};

use crate::attributes::{n, s, ttl};
use crate::errors::{DYNAMODB, is_item_too_large, meaning, port_error};
use crate::lock_items::{
    BATCH_ID, ClaimForm, EXPIRES_AT, LAST_SEAT, MESSAGE_ID, OF_LIVE_CLAIMS, SEQ, SET_ASIDE,
    claim_names, claim_values, last_seat_value, unstorable,
};

/// The codes of a store that has no PartiQL, or that does not permit it: of a request, and of each statement of a request.
const REFUSALS: [&str; 3] = [
    "UnknownOperationException",
    "AccessDeniedException",
    "AccessDenied",
];

/// The store has no PartiQL, or does not permit it. Nothing was written.
#[derive(Debug)]
pub(crate) struct PartiqlRefused(pub(crate) PortError);

/// The statement texts for one table, built once; every value is a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    table: String,
    /// Writes an item of each form, if there is none with its key.
    insert: BTreeMap<ClaimForm, String>,
    /// Turns a claim into a tombstone, if it still has this seat.
    tombstone: String,
    /// Turns a claim into the tombstone of an event that was set aside, if it still has this seat.
    set_aside: String,
    /// Deletes a claim, if it still has this seat.
    delete: String,
}

impl Statements {
    pub(crate) fn new(table: &str) -> Statements {
        let insert = |form| {
            let fields: Vec<String> = claim_names(form)
                .map(|name| format!("'{name}': ?"))
                .collect();
            let text = format!("INSERT INTO \"{table}\" VALUE {{{}}}", fields.join(", "));
            (form, text)
        };
        // Removing an attribute that the item does not have is not an error.
        let removed: String = OF_LIVE_CLAIMS
            .iter()
            .map(|name| format!(" REMOVE \"{name}\""))
            .collect();
        // An UPDATE of a missing item fails; an UpdateItem would create the item.
        let mine = format!("WHERE \"{MESSAGE_ID}\" = ? AND \"{BATCH_ID}\" = ? AND \"{SEQ}\" = ?");
        let tombstone = |also: &str| {
            format!(
                "UPDATE \"{table}\" SET \"{EXPIRES_AT}\" = ? SET \"{LAST_SEAT}\" = ?{also}{removed} {mine}"
            )
        };
        Statements {
            table: table.to_owned(),
            insert: ClaimForm::all().map(insert).collect(),
            tombstone: tombstone(""),
            set_aside: tombstone(&format!(" SET \"{SET_ASIDE}\" = true")),
            delete: format!("DELETE FROM \"{table}\" {mine}"),
        }
    }

    pub(crate) fn insert(&self, claim: &Claim) -> BatchStatementRequest {
        statement(&self.insert[&ClaimForm::of(claim)], claim_values(claim))
    }

    fn release(&self, id: &EventId, seat: SeatKey, release: Release) -> BatchStatementRequest {
        let claim = [s(id.as_str()), s(seat.shard.to_string()), n(seat.seq)];
        let (text, until) = match release {
            Release::Remembered(until) => (&self.tombstone, Some(until)),
            Release::SetAside(until) => (&self.set_aside, Some(until)),
            Release::Deleted => (&self.delete, None),
        };
        let tombstone = until.map(|until| [ttl(until), last_seat_value(seat)]);
        let values = tombstone.into_iter().flatten().chain(claim);
        statement(text, values.collect())
    }
}

fn statement(text: &str, parameters: Vec<AttributeValue>) -> BatchStatementRequest {
    BatchStatementRequest::builder()
        .statement(text)
        .set_parameters(Some(parameters))
        .build()
        .expect("its one required field is set")
}

/// Writes claims in one request.
///
/// # Errors
/// [`PartiqlRefused`]: no claim was written.
pub(crate) async fn claim(
    client: &Client,
    statements: &Statements,
    claims: &[Claim],
) -> Result<Vec<ClaimReply>, PartiqlRefused> {
    let mut replies: Vec<Option<ClaimReply>> = Vec::with_capacity(claims.len());
    let mut requests = Vec::with_capacity(claims.len());
    for (index, claim) in claims.iter().enumerate() {
        // DynamoDB refuses a request with two statements on one key. Callers do not send any; this is a second line of defence.
        let is_of_claim = |other: &Claim| other.candidate.event_id == claim.candidate.event_id;
        let exists = claims[..index].iter().any(is_of_claim);
        let reply = unstorable(claim).or_else(|| exists.then_some(ClaimReply::Exists(None)));
        if reply.is_none() {
            requests.push(statements.insert(claim));
        }
        replies.push(reply);
    }
    let sent = execute(client, &statements.table, requests).await?;
    let mut sent = sent.into_iter().map(claim_reply);
    let reply = |reply: Option<ClaimReply>| {
        let reply = reply.or_else(|| sent.next());
        reply.unwrap_or_else(|| ClaimReply::Error(missing_reply()))
    };
    Ok(replies.into_iter().map(reply).collect())
}

/// Releases claims in one request.
///
/// # Errors
/// [`PartiqlRefused`]: no claim was released.
pub(crate) async fn release(
    client: &Client,
    statements: &Statements,
    items: &[(EventId, SeatKey)],
    release: Release,
) -> Result<Vec<ReleaseReply>, PartiqlRefused> {
    let requests = items
        .iter()
        .map(|(id, seat)| statements.release(id, *seat, release))
        .collect();
    let sent = execute(client, &statements.table, requests).await?;
    Ok(sent.into_iter().map(release_reply).collect())
}

/// The result of a statement: `None` when it was applied.
type StatementResult = Result<Option<Failure>, PortError>;

/// The error of a statement.
struct Failure {
    code: String,
    table: String,
    message: String,
}

/// Sends one request and returns the result of each statement, in order.
async fn execute(
    client: &Client,
    table: &str,
    requests: Vec<BatchStatementRequest>,
) -> Result<Vec<StatementResult>, PartiqlRefused> {
    let count = requests.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    let call = client.batch_execute_statement();
    let sent = call.set_statements(Some(requests)).send().await;
    let (responses, lack) = match sent {
        Ok(output) => (output.responses.unwrap_or_default(), missing_reply()),
        Err(error) => {
            let is_refused = error.code().is_some_and(|code| REFUSALS.contains(&code));
            let error = port_error(DYNAMODB, table, &error);
            match is_refused {
                true => return Err(PartiqlRefused(error)),
                false => (Vec::new(), error),
            }
        }
    };
    let mut results: Vec<StatementResult> = responses
        .into_iter()
        .map(|response| statement_result(table, response))
        .chain(repeat_with(|| Err(lack.clone())))
        .take(count)
        .collect();
    let is_refused = |result: &StatementResult| matches!(result, Ok(Some(failure)) if REFUSALS.contains(&&*failure.code));
    let are_refused = results.iter().all(is_refused);
    match are_refused.then(|| results.swap_remove(0)) {
        Some(Ok(Some(failure))) => Err(PartiqlRefused(failure.into_error())),
        _ => Ok(results),
    }
}

fn statement_result(table: &str, response: BatchStatementResponse) -> StatementResult {
    let Some(BatchStatementError { code, message, .. }) = response.error else {
        return Ok(None);
    };
    let message = message.unwrap_or_default();
    match code {
        Some(code) => Ok(Some(Failure {
            code: code.as_str().to_owned(),
            table: table.to_owned(),
            message,
        })),
        None => {
            let message = format!("{table}: error without a code: {message}");
            Err(PortError::unknown(DYNAMODB, message))
        }
    }
}

impl Failure {
    fn into_error(self) -> PortError {
        let message = format!("{}: {}: {}", self.table, self.code, self.message);
        meaning(&self.code, None).error(DYNAMODB, message)
    }
}

fn claim_reply(result: StatementResult) -> ClaimReply {
    match result {
        Ok(None) => ClaimReply::Written,
        Ok(Some(failure)) if failure.code == "DuplicateItem" => ClaimReply::Exists(None),
        Ok(Some(failure)) if is_item_too_large(&failure.code, &failure.message) => {
            ClaimReply::Unstorable(failure.message)
        }
        Ok(Some(failure)) => ClaimReply::Error(failure.into_error()),
        Err(error) => ClaimReply::Error(error),
    }
}

fn release_reply(result: StatementResult) -> ReleaseReply {
    match result {
        Ok(None) => ReleaseReply::Released,
        // The item is no longer the claim of this seat.
        Ok(Some(failure)) if failure.code == "ConditionalCheckFailed" => ReleaseReply::Released,
        Ok(Some(failure)) => ReleaseReply::Error(failure.into_error()),
        Err(error) => ReleaseReply::Error(error),
    }
}

fn missing_reply() -> PortError {
    PortError::unknown(DYNAMODB, "fewer responses than statements")
}
