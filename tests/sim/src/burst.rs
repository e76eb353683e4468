//! The messages of a history: who repeats whom, who contradicts whom, and who cannot be read.

use std::sync::Arc;

use protocol::ids::{BatchKey, BodyHash, EventId, SourceArn, SqsMessageId};
use protocol::limits::DYNAMODB_ITEM_BYTES_MAX;
use serde_json::json;
use shared::memory::noise;

use crate::ledger::Sent;
use crate::plan::{IdKind, Plan};
use crate::sources::source;
use crate::world::World;

/// Writes the burst into the ledger.
pub fn plan(world: &mut World) {
    let plan = world.plan.clone();
    let rng = &mut world.rng;
    let messages = &mut world.ledger.messages;
    let mut events = 0;
    let mut large = plan.large;
    for index in 0..plan.messages {
        let sqs_message_id: SqsMessageId =
            format!("m{index}").parse().expect("a short text is an id");
        let sent_at_ms = rng.u64(0..=plan.burst_ms);
        let original = (index > 0 && rng.f64() < plan.duplicates).then(|| rng.usize(..index));
        let bad = plan.id_kind != IdKind::MessageId && rng.f64() < plan.bad;
        if bad {
            let body = match plan.id_kind {
                IdKind::Attribute => json!({ "unread": index, "key": "k0" }).to_string(),
                IdKind::Json | IdKind::MessageId => format!("not JSON {index}"),
            };
            let source = source(rng.usize(..plan.sources));
            messages.push(sent(
                sqs_message_id,
                None,
                None,
                source,
                None,
                body,
                sent_at_ms,
            ));
            continue;
        }
        // A copy has everything of its original but the message; a contradiction has its event id alone.
        let original = original.filter(|original| !messages[*original].bad);
        let contradicts = rng.f64() < plan.conflicts;
        if let Some(original) = original
            && !contradicts
        {
            let mut copy = messages[original].clone();
            copy.sqs_message_id = sqs_message_id;
            copy.sent_at_ms = sent_at_ms;
            if plan.crosses_sources && rng.bool() {
                copy.source = source(rng.usize(..plan.sources));
            }
            if plan.id_kind == IdKind::MessageId {
                copy.name = Some(copy.sqs_message_id.to_string());
            }
            copy.event_id = event_id(&plan, &copy.source, copy.name.as_deref());
            messages.push(copy);
            continue;
        }
        let id = original.and_then(|original| messages[original].name.clone());
        let id = match (id, plan.id_kind) {
            (_, IdKind::MessageId) => sqs_message_id.to_string(),
            (Some(id), _) => id,
            (None, _) => {
                events += 1;
                format!("e{events}")
            }
        };
        let key = (plan.keys > 0).then(|| format!("k{}", rng.usize(..plan.keys)));
        let mut body = json!({ "id": id, "key": key, "number": index });
        if large > 0 && rng.u8(..) < 64 {
            large -= 1;
            body["filler"] = noise(DYNAMODB_ITEM_BYTES_MAX * 3 / 2).into();
        }
        let body = body.to_string();
        let batch_key = key.map(|key| key.parse().expect("a short text is a key"));
        let source = source(rng.usize(..plan.sources));
        let event_id = event_id(&plan, &source, Some(&id));
        messages.push(sent(
            sqs_message_id,
            event_id,
            Some(id),
            source,
            batch_key,
            body,
            sent_at_ms,
        ));
    }
    for (index, message) in messages.iter().enumerate() {
        world
            .ledger
            .by_id
            .insert(message.sqs_message_id.clone(), index);
    }
}

/// The event id of a name: with a prefix, it is another one in each source.
pub fn event_id(plan: &Plan, source: &SourceArn, name: Option<&str>) -> Option<EventId> {
    let name = name?;
    let id = match plan.prefixes_source {
        true => format!("{source}/{name}"),
        false => name.to_owned(),
    };
    Some(id.parse().expect("a short text is an id"))
}

/// A message of which nothing has become yet; without an event id, it cannot be read.
fn sent(
    sqs_message_id: SqsMessageId,
    event_id: Option<EventId>,
    name: Option<String>,
    source: SourceArn,
    batch_key: Option<BatchKey>,
    body: String,
    sent_at_ms: u64,
) -> Sent {
    Sent {
        sqs_message_id,
        bad: event_id.is_none(),
        event_id,
        name,
        source,
        batch_key,
        body_hash: BodyHash::of(body.as_bytes()),
        body: Arc::from(body),
        sent_at_ms,
        acknowledged_at: None,
        reported: false,
    }
}
