//! Messages of the batch queue.

use protocol::ids::BatchShard;
use serde_json::Value;
use shared::wire::{Ticket, TicketError};

/// Any bytes as a ticket, and as the key of a batch's shard.
///
/// # Panics
/// When what was read does not read back as itself, names another batch than it says, or is refused with all of it in
/// the message.
pub fn ticket(data: &[u8]) {
    let Ok(body) = std::str::from_utf8(data) else {
        return;
    };
    match Ticket::from_body(body) {
        Ok(ticket) => {
            assert_eq!(
                Ticket::from_body(&ticket.to_body()).ok().as_ref(),
                Some(&ticket)
            );
            if let Ok(Value::Object(fields)) = serde_json::from_str(body) {
                let named = fields["batchId"].as_str().expect("it names its batch");
                assert_eq!(named.parse().ok(), Some(ticket.batch_id));
            }
        }
        Err(error) => {
            if let TicketError::Malformed { body: quoted, .. } = &error {
                assert!(quoted.chars().count() <= 200 && body.starts_with(&**quoted));
            }
            assert!(error.to_string().len() <= 200 * 4 + 200);
        }
    }
    if let Ok(shard) = body.parse::<BatchShard>() {
        assert_eq!(shard.to_string().parse(), Ok(shard));
    }
}
