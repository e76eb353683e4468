//! Claims and releases by `BatchExecuteStatement`: 25 conditional writes in one signed request.
//!
//! Members run independently and are answered in request order. What no member ever gets back is the item it met: a
//! duplicate `INSERT` says only that there is one (`ClaimReply::Exists(None)`).

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementError, BatchStatementErrorCodeEnum, BatchStatementRequest,
    BatchStatementResponse,
};

use super::attributes::{n, s, ttl};
use super::errors::{DYNAMODB, is_item_too_large, meaning, port_error, repeated};
use super::lock_items::{
    BATCH_ID, EXPIRES_AT, MESSAGE_ID, OF_LIVE_CLAIMS, SEQ, claim_names, claim_values, unstorable,
};
use crate::ids::{EventId, Place};
use crate::ports::{ClaimReply, PortError, ReleaseReply};
use crate::protocol::claim::Claim;
use crate::time::Timestamp;

/// The statement texts for one table, built once; every value is a parameter.
#[derive(Clone, Debug)]
pub(super) struct Statements {
    table: String,
    /// Writes an item; permitted only where there is none with its key. By `has_attributes`, then `has_past`.
    insert: [[String; 2]; 2],
    /// Makes a tombstone of a claim; permitted only while it is this batch's.
    tombstone: String,
    /// Deletes a claim; permitted only while it holds this place.
    delete: String,
}

impl Statements {
    pub(super) fn new(table: &str) -> Statements {
        let insert = |has_attributes, has_past| {
            let fields: Vec<String> = claim_names(has_attributes, has_past)
                .map(|name| format!("'{name}': ?"))
                .collect();
            format!("INSERT INTO \"{table}\" VALUE {{{}}}", fields.join(", "))
        };
        // Removing an attribute that the item does not have is no error.
        let removed: String = OF_LIVE_CLAIMS
            .iter()
            .map(|name| format!(" REMOVE \"{name}\""))
            .collect();
        // An UPDATE of a missing item fails as its condition does, unlike an UpdateItem, which would create it.
        let mine = format!("WHERE \"{MESSAGE_ID}\" = ? AND \"{BATCH_ID}\" = ? AND \"{SEQ}\" = ?");
        Statements {
            table: table.to_owned(),
            insert: [
                [insert(false, false), insert(false, true)],
                [insert(true, false), insert(true, true)],
            ],
            tombstone: format!("UPDATE \"{table}\" SET \"{EXPIRES_AT}\" = ?{removed} {mine}"),
            delete: format!("DELETE FROM \"{table}\" {mine}"),
        }
    }

    fn insert(&self, claim: &Claim) -> BatchStatementRequest {
        let has_attributes = usize::from(claim.candidate.attributes.is_some());
        let has_past = usize::from(!claim.past.is_empty());
        statement(&self.insert[has_attributes][has_past], claim_values(claim))
    }

    fn release(
        &self,
        id: &EventId,
        place: Place,
        expires_at: Option<Timestamp>,
    ) -> BatchStatementRequest {
        let (id, shard, seq) = (s(id.as_str()), s(place.shard.to_string()), n(place.seq));
        match expires_at {
            Some(expires_at) => statement(&self.tombstone, vec![ttl(expires_at), id, shard, seq]),
            None => statement(&self.delete, vec![id, shard, seq]),
        }
    }
}

fn statement(text: &str, parameters: Vec<AttributeValue>) -> BatchStatementRequest {
    BatchStatementRequest::builder()
        .statement(text)
        .set_parameters(Some(parameters))
        .build()
        .expect("the statement is set in the line above")
}

/// Writes claims, one request.
pub(super) async fn claim(
    client: &Client,
    statements: &Statements,
    claims: &[Claim],
) -> Vec<ClaimReply> {
    let mut replies: Vec<Option<ClaimReply>> = Vec::with_capacity(claims.len());
    let mut requests = Vec::with_capacity(claims.len());
    for (index, claim) in claims.iter().enumerate() {
        let reply = unstorable(claim).or_else(|| met_before(&claims[..index], claim));
        if reply.is_none() {
            requests.push(statements.insert(claim));
        }
        replies.push(reply);
    }
    let mut sent = execute(client, statements, requests)
        .await
        .into_iter()
        .map(claim_reply);
    replies
        .into_iter()
        .map(|reply| {
            reply
                .or_else(|| sent.next())
                .unwrap_or_else(|| ClaimReply::Error(unanswered()))
        })
        .collect()
}

/// Two statements on one key get the whole request refused. Callers send none; should one slip through, the second
/// finds an item there, as it would have if it had been sent later.
fn met_before(earlier: &[Claim], claim: &Claim) -> Option<ClaimReply> {
    let id = &claim.candidate.event_id;
    earlier
        .iter()
        .any(|other| other.candidate.event_id == *id)
        .then_some(ClaimReply::Exists(None))
}

/// Releases claims, one request.
pub(super) async fn release(
    client: &Client,
    statements: &Statements,
    items: &[(EventId, Place)],
    expires_at: Option<Timestamp>,
) -> Vec<ReleaseReply> {
    let requests = items
        .iter()
        .map(|(id, place)| statements.release(id, *place, expires_at))
        .collect();
    execute(client, statements, requests)
        .await
        .into_iter()
        .map(release_reply)
        .collect()
}

/// A member's answer: `None` when it was applied.
type Member = Result<Option<Failure>, PortError>;

/// What a member's error says, with the table it is about.
struct Failure {
    code: BatchStatementErrorCodeEnum,
    table: String,
    message: String,
}

/// Sends one request and answers per member, in order.
async fn execute(
    client: &Client,
    statements: &Statements,
    requests: Vec<BatchStatementRequest>,
) -> Vec<Member> {
    let count = requests.len();
    if count == 0 {
        return Vec::new();
    }
    match client
        .batch_execute_statement()
        .set_statements(Some(requests))
        .send()
        .await
    {
        Ok(output) => {
            let mut responses = output.responses.unwrap_or_default().into_iter();
            (0..count)
                .map(|_| {
                    responses.next().map_or_else(
                        || Err(unanswered()),
                        |response| member(&statements.table, response),
                    )
                })
                .collect()
        }
        Err(error) => {
            let error = port_error(DYNAMODB, &statements.table, &error);
            (0..count).map(|_| Err(repeated(&error))).collect()
        }
    }
}

fn member(table: &str, response: BatchStatementResponse) -> Member {
    let Some(BatchStatementError { code, message, .. }) = response.error else {
        return Ok(None);
    };
    let message = message.unwrap_or_default();
    match code {
        Some(code) => Ok(Some(Failure {
            code,
            table: table.to_owned(),
            message,
        })),
        None => Err(PortError::Unknown {
            service: DYNAMODB,
            message: format!("{table}: error without a code: {message}"),
        }),
    }
}

impl Failure {
    fn into_error(self) -> PortError {
        let code = self.code.as_str();
        meaning(code, None).error(
            DYNAMODB,
            format!("{}: {code}: {}", self.table, self.message),
        )
    }
}

fn claim_reply(member: Member) -> ClaimReply {
    match member {
        Ok(None) => ClaimReply::Written,
        Ok(Some(failure)) if failure.code == BatchStatementErrorCodeEnum::DuplicateItem => {
            ClaimReply::Exists(None)
        }
        Ok(Some(failure)) if is_item_too_large(failure.code.as_str(), &failure.message) => {
            ClaimReply::Unstorable(failure.message)
        }
        Ok(Some(failure)) => ClaimReply::Error(failure.into_error()),
        Err(error) => ClaimReply::Error(error),
    }
}

fn release_reply(member: Member) -> ReleaseReply {
    match member {
        Ok(None) => ReleaseReply::Released,
        // Not this batch's claim any more.
        Ok(Some(failure))
            if failure.code == BatchStatementErrorCodeEnum::ConditionalCheckFailed =>
        {
            ReleaseReply::Released
        }
        Ok(Some(failure)) => ReleaseReply::Error(failure.into_error()),
        Err(error) => ReleaseReply::Error(error),
    }
}

fn unanswered() -> PortError {
    PortError::Unknown {
        service: DYNAMODB,
        message: "fewer responses than statements".to_owned(),
    }
}
