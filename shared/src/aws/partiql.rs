//! Claims and releases by `BatchExecuteStatement`: 25 conditional writes in one signed request.
//!
//! Members run independently and are answered in request order. What no member ever gets back is the item it met: a
//! duplicate `INSERT` says only that there is one (`ClaimReply::Exists(None)`).

use serde::Deserialize;

use super::attributes::{Value, push_value};
use super::errors::{DYNAMODB, is_item_too_large, meaning, repeated};
use super::lock_items::{
    BATCH_ID, EXPIRES_AT, MESSAGE_ID, OF_LIVE_CLAIMS, SEQ, claim_names, claim_values, unstorable,
};
use super::operation::{Operation, read};
use crate::ids::{EventId, Place};
use crate::ports::{ClaimReply, PortError, ReleaseReply};
use crate::protocol::claim::Claim;
use crate::time::Timestamp;

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
        Statements {
            table: table.to_owned(),
            insert: [
                [insert(false, false), insert(false, true)],
                [insert(true, false), insert(true, true)],
            ],
            tombstone: as_json(&format!(
                "UPDATE \"{table}\" SET \"{EXPIRES_AT}\" = ?{removed} {mine}"
            )),
            delete: as_json(&format!("DELETE FROM \"{table}\" {mine}")),
        }
    }

    fn insert<'a>(&'a self, claim: &'a Claim) -> Statement<'a> {
        let has_attributes = usize::from(claim.candidate.attributes.is_some());
        let has_past = usize::from(!claim.past.is_empty());
        Statement {
            text: &self.insert[has_attributes][has_past],
            parameters: claim_values(claim),
        }
    }

    fn release<'a>(
        &'a self,
        id: &'a EventId,
        place: Place,
        expires_at: Option<Timestamp>,
    ) -> Statement<'a> {
        let mine = [
            Value::text(id.as_str()),
            Value::text(place.shard.to_string()),
            Value::number(place.seq),
        ];
        let expires_at = expires_at.map(|time| Value::number(time.as_secs_ceil()));
        Statement {
            text: match expires_at {
                Some(_) => &self.tombstone,
                None => &self.delete,
            },
            parameters: expires_at.into_iter().chain(mine).collect(),
        }
    }
}

fn as_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// One member of a request.
struct Statement<'a> {
    /// As JSON.
    text: &'a str,
    parameters: Vec<Value<'a>>,
}

/// The body of a request.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html> (2026-08).
fn request(statements: &[Statement<'_>]) -> Vec<u8> {
    let mut to = Vec::with_capacity(statements.len() * STATEMENT_BYTES);
    to.extend_from_slice(b"{\"Statements\":[");
    for (index, statement) in statements.iter().enumerate() {
        let start: &[u8] = match index {
            0 => b"{\"Statement\":",
            _ => b",{\"Statement\":",
        };
        to.extend_from_slice(start);
        to.extend_from_slice(statement.text.as_bytes());
        to.extend_from_slice(b",\"Parameters\":[");
        for (index, value) in statement.parameters.iter().enumerate() {
            if index > 0 {
                to.push(b',');
            }
            push_value(&mut to, value);
        }
        to.extend_from_slice(b"]}");
    }
    to.extend_from_slice(b"]}");
    to
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
    let mut requests = Vec::with_capacity(claims.len());
    for (index, claim) in claims.iter().enumerate() {
        let reply = unstorable(claim).or_else(|| met_before(&claims[..index], claim));
        if reply.is_none() {
            requests.push(statements.insert(claim));
        }
        replies.push(reply);
    }
    let mut sent = execute(operation, statements, requests)
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
    operation: &Operation,
    statements: &Statements,
    items: &[(EventId, Place)],
    expires_at: Option<Timestamp>,
) -> Vec<ReleaseReply> {
    let requests = items
        .iter()
        .map(|(id, place)| statements.release(id, *place, expires_at))
        .collect();
    execute(operation, statements, requests)
        .await
        .into_iter()
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
    statements: &Statements,
    requests: Vec<Statement<'_>>,
) -> Vec<Member> {
    let count = requests.len();
    if count == 0 {
        return Vec::new();
    }
    match send(operation, &statements.table, &requests).await {
        Ok(responses) => {
            let mut responses = responses.into_iter();
            (0..count)
                .map(|_| {
                    responses.next().map_or_else(
                        || Err(unanswered()),
                        |response| member(&statements.table, response),
                    )
                })
                .collect()
        }
        Err(error) => (0..count).map(|_| Err(repeated(&error))).collect(),
    }
}

async fn send(
    operation: &Operation,
    table: &str,
    statements: &[Statement<'_>],
) -> Result<Vec<Response>, PortError> {
    let answer = operation.call(table, request(statements)).await?;
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
