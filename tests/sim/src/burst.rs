//! The messages of a history: which are duplicates, which have conflicting content, and which have no event id.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use protocol::ids::{BodyHash, EventId, SourceArn, SqsMessageId};
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use protocol::time::Timestamp;
use serde_json::json;
use shared::memory::noise;
use shared::message_attributes::{
    AttributeMap, MESSAGE_GROUP_ID, MessageAttribute, MessageAttributes,
};

use crate::ledger::{Ledger, Sent};
use crate::plan::{IdKind, Plan};
use crate::sources::source;
use crate::world::World;

/// Draws the burst, and writes it into the ledger.
pub fn plan(world: &mut World) {
    let plan = world.plan.clone();
    let mut burst = Burst {
        plan: &plan,
        rng: &mut world.rng,
        apart: Rng::with_seed(plan.seed ^ 0xb045_7ab4),
        ledger: &mut world.ledger,
        events_count: 0,
        large_left: plan.large,
    };
    for _ in 0..plan.messages {
        let message = burst.message();
        burst.ledger.add_message(message);
    }
}

struct Burst<'w> {
    plan: &'w Plan,
    rng: &'w mut Rng,
    /// For what was added later: a new draw from `rng` would change every history.
    apart: Rng,
    ledger: &'w mut Ledger,
    events_count: usize,
    /// How many more bodies may be too large for an item.
    large_left: usize,
}

impl Burst<'_> {
    fn message(&mut self) -> Sent {
        let (plan, index) = (self.plan, self.ledger.messages.len());
        let sent_at = plan.start + Duration::from_millis(self.rng.u64(0..=plan.burst_ms));
        let original =
            (index > 0 && self.rng.f64() < plan.duplicates).then(|| self.rng.usize(..index));
        if plan.id_kind != IdKind::MessageId && self.rng.f64() < plan.bad {
            return self.unreadable(sent_at);
        }
        // A duplicate differs from its original in the message id; conflicting content shares only the event id.
        let original = original.map(|original| self.ledger.messages[original].clone());
        let contradicts = self.rng.f64() < plan.conflicts;
        match original.filter(|original| !original.bad) {
            Some(original) if !contradicts => self.duplicate(&original, sent_at),
            Some(original) => self.event(original.name, sent_at),
            None => self.event(None, sent_at),
        }
    }

    /// Returns a message without an event id.
    fn unreadable(&mut self, sent_at: Timestamp) -> Sent {
        let index = self.ledger.messages.len();
        let body = match self.plan.id_kind {
            IdKind::Attribute => json!({ "unread": index, "key": "k0" }).to_string(),
            IdKind::Json | IdKind::MessageId => format!("not JSON {index}"),
        };
        let source = source(self.rng.usize(..self.plan.sources));
        Sent {
            attributes: attributes(self.plan, index, None),
            ..unread(self.ledger.next_message_id(), source, body, sent_at)
        }
    }

    fn duplicate(&mut self, original: &Sent, sent_at: Timestamp) -> Sent {
        let mut copy = original.again(self.ledger.next_message_id());
        copy.sent_at = sent_at;
        if self.plan.crosses_sources && self.rng.bool() {
            copy.source = source(self.rng.usize(..self.plan.sources));
        }
        if self.plan.id_kind == IdKind::MessageId {
            copy.name = Some(copy.sqs_message_id.to_string());
        }
        copy.event_id = event_id(self.plan, &copy.source, copy.name.as_deref());
        copy
    }

    /// Returns a message with a body of its own. With a `name`, its content conflicts with another message of that
    /// name.
    fn event(&mut self, name: Option<String>, sent_at: Timestamp) -> Sent {
        let (index, sqs_message_id) = (self.ledger.messages.len(), self.ledger.next_message_id());
        let is_first = name.is_none();
        let id = match (name, self.plan.id_kind) {
            (_, IdKind::MessageId) => sqs_message_id.to_string(),
            (Some(name), _) => name,
            (None, _) => {
                self.events_count += 1;
                format!("e{}", self.events_count)
            }
        };
        let keys = self.plan.keys;
        let key = (keys > 0).then(|| format!("k{}", self.rng.usize(..keys)));
        let mut body = json!({ "id": id, "key": key, "number": index });
        if is_first && self.plan.rejects > 0.0 && self.rng.f64() < self.plan.rejects {
            body["wrong"] = true.into();
        }
        if self.large_left > 0 && self.rng.u8(..) < 64 {
            self.large_left -= 1;
            body["filler"] = noise(DYNAMODB_ITEM_BYTES_MAX * 3 / 2).into();
        }
        let happened_at = plan_time(self.plan, index, sent_at);
        if let Some(at) = happened_at {
            body["at"] = at.as_ms().into();
        }
        let is_urgent = self.plan.urgent > 0.0 && self.apart.f64() < self.plan.urgent;
        if is_urgent {
            body["urgent"] = true.into();
        }
        let account = (self.plan.accounts > 0).then(|| {
            let number = self.apart.usize(..self.plan.accounts);
            format!("a{number}")
        });
        if let Some(account) = &account {
            body["account"] = account.as_str().into();
        }
        let body = body.to_string();
        let quota_key = account.or_else(|| key.clone());
        let quota_key = quota_key.map(|key| key.parse().expect("a short text is a key"));
        let batch_key = key.map(|key| key.parse().expect("a short text is a key"));
        let source = source(self.rng.usize(..self.plan.sources));
        Sent {
            event_id: event_id(self.plan, &source, Some(&id)),
            attributes: attributes(self.plan, index, Some(&id)),
            name: Some(id),
            batch_key,
            happened_at,
            is_urgent,
            quota_key,
            bad: false,
            ..unread(sqs_message_id, source, body, sent_at)
        }
    }
}

/// Returns the message attributes of a message with a name, or of one that has none. Every third message has as many as SQS takes,
/// among them one with a name that the service uses in the quarantine. Every second one has a message group.
fn attributes(plan: &Plan, index: usize, name: Option<&str>) -> Option<MessageAttributes> {
    if plan.id_kind != IdKind::Attribute {
        return None;
    }
    let mut attributes = AttributeMap::new();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "reason"];
    if index.is_multiple_of(3) {
        let of_message = |name: &str| MessageAttribute::string(format!("{name} of {index}"));
        attributes.extend(names.map(|name| (name.to_owned(), of_message(name))));
    }
    if index.is_multiple_of(2) {
        let group = MessageAttribute::string(format!("group-{}", index % 5));
        attributes.insert(MESSAGE_GROUP_ID.to_owned(), group);
    }
    let id = name.map(|name| ("id".to_owned(), MessageAttribute::string(name)));
    attributes.extend(id);
    MessageAttributes::of(attributes)
}

/// Returns when an event happened, if its body says so: mostly shortly before its message was sent, sometimes a period earlier or later.
fn plan_time(plan: &Plan, index: usize, sent_at: Timestamp) -> Option<Timestamp> {
    let rng = &mut Rng::with_seed(plan.seed ^ 0xe7e2_7000 ^ (index as u64) << 32);
    let period_ms = u64::from(plan.close_every.unwrap_or(10)) * 60_000;
    plan.event_times.then(|| match rng.u8(..4) {
        0 => sent_at.saturating_sub(Duration::from_millis(rng.u64(..2 * period_ms))),
        1 => sent_at + Duration::from_millis(rng.u64(..period_ms)),
        _ => sent_at.saturating_sub(Duration::from_millis(rng.u64(..60_000))),
    })
}

/// Returns the event id of a name. With a prefix, the name has another event id in each source.
pub fn event_id(plan: &Plan, source: &SourceArn, name: Option<&str>) -> Option<EventId> {
    let name = name?;
    let id = match plan.prefixes_source {
        true => format!("{source}/{name}"),
        false => name.to_owned(),
    };
    Some(id.parse().expect("a short text is an id"))
}

/// Returns a message that cannot be read, and was not processed yet.
pub fn unread(id: SqsMessageId, source: SourceArn, body: String, sent_at: Timestamp) -> Sent {
    Sent {
        sqs_message_id: id,
        event_id: None,
        name: None,
        source,
        batch_key: None,
        body_hash: BodyHash::of(body.as_bytes()),
        body: Arc::from(body),
        attributes: None,
        sent_at,
        happened_at: None,
        is_urgent: false,
        quota_key: None,
        bad: true,
        acknowledged_at: None,
        reported: false,
    }
}
