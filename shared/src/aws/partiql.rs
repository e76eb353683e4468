//! Claims and releases by `BatchExecuteStatement`: 25 conditional writes in one signed request.
//!
//! Members run independently and are answered in request order. What no member ever gets back is the item it met: a
//! duplicate `INSERT` says only that there is one (`ClaimReply::Exists(None)`).

use std::iter::repeat_with;

use protocol::claim::Claim;
use protocol::ids::{EventId, Place};
use serde::Deserialize;

use super::attributes::Sent;
use super::errors::{DYNAMODB, is_item_too_large, meaning, repeated};
use super::lock_items::{
    BATCH_ID, EXPIRES_AT, MESSAGE_ID, OF_LIVE_CLAIMS, SEQ, SET_ASIDE, claim_names, claim_values,
    unstorable,
};
use super::operation::{Operation, read};
use crate::ports::{ClaimReply, PortError, Release, ReleaseReply};

/// What a member takes in a request, roughly: its statement, its names, and a small body.
const STATEMENT_BYTES: usize = 1_024;

/// The statement texts for one table, as JSON, built once; every value is a parameter.
#[derive(Clone, Debug)]
pub(super) struct Statements {
    table: String,
    /// Writes an item; permitted only where there is none with its key. By `has_attributes`, then `has_past`.
    insert: [[String; 2]; 2],
    /// Makes a tombstone of a claim; permitted only while it is this batch's.
    tombstone: String,
    /// The same, of a claim whose event was set aside.
    set_aside: String,
    /// Deletes a claim; permitted only while it holds this place.
    delete: String,
}

impl Statements {
    pub(super) fn new(table: &str) -> Statements {
        let insert = |has_attributes, has_past| {
            let fields: Vec<String> = claim_names(has_attributes, has_past)
                .map(|name| format!("'{name}': ?"))
                .collect();
            as_json(&format!(
                "INSERT INTO \"{table}\" VALUE {{{}}}",
                fields.join(", ")
            ))
        };
        // Removing an attribute that the item does not have is no error.
        let removed: String = OF_LIVE_CLAIMS
            .iter()
            .map(|name| format!(" REMOVE \"{name}\""))
            .collect();
        // An UPDATE of a missing item fails as its condition does, unlike an UpdateItem, which would create it.
        let mine = format!("WHERE \"{MESSAGE_ID}\" = ? AND \"{BATCH_ID}\" = ? AND \"{SEQ}\" = ?");
        let tombstone = |also: &str| {
            as_json(&format!(
                "UPDATE \"{table}\" SET \"{EXPIRES_AT}\" = ?{also}{removed} {mine}"
            ))
        };
        Statements {
            table: table.to_owned(),
            insert: [
                [insert(false, false), insert(false, true)],
                [insert(true, false), insert(true, true)],
            ],
            tombstone: tombstone(""),
            set_aside: tombstone(&format!(" SET \"{SET_ASIDE}\" = true")),
            delete: as_json(&format!("DELETE FROM \"{table}\" {mine}")),
        }
    }

    fn push_insert(&self, to: &mut Request, claim: &Claim) {
        let has_attributes = usize::from(claim.candidate.attributes.is_some());
        let has_past = usize::from(!claim.past.is_empty());
        let statement = &self.insert[has_attributes][has_past];
        to.push(statement, |parameters| {
            claim_values(claim, |value| parameters.push(&value));
        });
    }

    fn push_release(&self, to: &mut Request, id: &EventId, place: Place, release: Release) {
        let (statement, expires_at) = match release {
            Release::Remembered(until) => (&self.tombstone, Some(until)),
            Release::SetAside(until) => (&self.set_aside, Some(until)),
            Release::Deleted => (&self.delete, None),
        };
        to.push(statement, |parameters| {
            if let Some(time) = expires_at {
                parameters.push(&Sent::Number(time.as_secs_ceil()));
            }
            parameters.push(&Sent::Text(id.as_str()));
            parameters.push(&Sent::Shard(place.shard));
            parameters.push(&Sent::Number(place.seq.into()));
        });
    }
}

fn as_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The body of a request, as far as it is written.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html> (2026-08).
struct Request {
    members: usize,
    body: Vec<u8>,
}

impl Request {
    /// With room for so many members.
    fn new(members: usize) -> Request {
        let mut body = Vec::with_capacity(members * STATEMENT_BYTES);
        body.extend_from_slice(b"{\"Statements\":[");
        Request { members: 0, body }
    }

    /// Adds a member; `statement` is JSON.
    fn push(&mut self, statement: &str, write: impl FnOnce(&mut Parameters<'_>)) {
        let to = &mut self.body;
        if self.members > 0 {
            to.push(b',');
        }
        to.extend_from_slice(b"{\"Statement\":");
        to.extend_from_slice(statement.as_bytes());
        to.extend_from_slice(b",\"Parameters\":[");
        write(&mut Parameters { to, any: false });
        self.body.extend_from_slice(b"]}");
        self.members += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        self.body.extend_from_slice(b"]}");
        self.body
    }
}

/// The parameters of a member, as far as they are written.
struct Parameters<'a> {
    to: &'a mut Vec<u8>,
    any: bool,
}

impl Parameters<'_> {
    fn push(&mut self, value: &Sent<'_>) {
        if std::mem::replace(&mut self.any, true) {
            self.to.push(b',');
        }
        value.push_to(self.to);
    }
}

/// The body of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Responses {
    #[serde(default)]
    responses: Vec<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    error: Option<MemberError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MemberError {
    code: Option<String>,
    #[serde(default)]
    message: String,
}

/// Writes claims, one request.
pub(super) async fn claim(
    operation: &Operation,
    statements: &Statements,
    claims: &[Claim],
) -> Vec<ClaimReply> {
    let mut replies: Vec<Option<ClaimReply>> = Vec::with_capacity(claims.len());
    let mut request = Request::new(claims.len());
    for (index, claim) in claims.iter().enumerate() {
        let reply = unstorable(claim).or_else(|| met_before(&claims[..index], claim));
        if reply.is_none() {
            statements.push_insert(&mut request, claim);
        }
        replies.push(reply);
    }
    let mut sent = execute(operation, &statements.table, request)
        .await
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
    operation: &Operation,
    statements: &Statements,
    items: &[(EventId, Place)],
    release: Release,
) -> Vec<ReleaseReply> {
    let mut request = Request::new(items.len());
    for (id, place) in items {
        statements.push_release(&mut request, id, *place, release);
    }
    execute(operation, &statements.table, request)
        .await
        .map(release_reply)
        .collect()
}

/// A member's answer: `None` when it was applied.
type Member = Result<Option<Failure>, PortError>;

/// What a member's error says, with the table it is about.
struct Failure {
    code: String,
    table: String,
    message: String,
}

/// Sends one request and answers per member, in order.
async fn execute(
    operation: &Operation,
    table: &str,
    request: Request,
) -> impl Iterator<Item = Member> {
    let count = request.members;
    let (responses, lack) = match count {
        0 => (Vec::new(), unanswered()),
        _ => match send(operation, table, request).await {
            Ok(responses) => (responses, unanswered()),
            Err(error) => (Vec::new(), error),
        },
    };
    responses
        .into_iter()
        .map(|response| member(table, response))
        .chain(repeat_with(move || Err(repeated(&lack))))
        .take(count)
}

async fn send(
    operation: &Operation,
    table: &str,
    request: Request,
) -> Result<Vec<Response>, PortError> {
    let answer = operation.call(table, request.finish()).await?;
    let answer: Responses = read(table, &answer)?;
    Ok(answer.responses)
}

fn member(table: &str, response: Response) -> Member {
    let Some(MemberError { code, message }) = response.error else {
        return Ok(None);
    };
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
        let code = &self.code;
        meaning(code, None).error(
            DYNAMODB,
            format!("{}: {code}: {}", self.table, self.message),
        )
    }
}

fn claim_reply(member: Member) -> ClaimReply {
    match member {
        Ok(None) => ClaimReply::Written,
        Ok(Some(failure)) if failure.code == "DuplicateItem" => ClaimReply::Exists(None),
        Ok(Some(failure)) if is_item_too_large(&failure.code, &failure.message) => {
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
        Ok(Some(failure)) if failure.code == "ConditionalCheckFailed" => ReleaseReply::Released,
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
