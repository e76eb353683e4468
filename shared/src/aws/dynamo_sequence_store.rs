use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use protocol::ids::BodyHash;
use protocol::sequence::{Sequence, SequenceScope};

use super::attributes::{Item, MalformedItem, StoredItem, n, s};
use super::batch_items::BATCH_ID;
use super::errors::applied;
use super::named_items;
use crate::ports::{PortError, SequenceStore};

/// The last number.
const LAST: &str = "last";
/// The part that holds it.
const HOLDER: &str = "holder";
/// Bytes of a key of a table.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html> (2026-11).
const KEY_BYTES_MAX: usize = 2_048;

/// The numbers of parts, in one item of the batch table for each source and batch key. No batch has the key of such an item: a
/// batch id is a UUID. The items have no `statusShard`, so they are not in `status-index`, and no TTL.
#[derive(Clone, Debug)]
pub struct DynamoSequenceStore {
    client: Client,
    table: String,
}

impl DynamoSequenceStore {
    /// Returns the numbers in the batch table `table`.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoSequenceStore {
        DynamoSequenceStore {
            client,
            table: table.into(),
        }
    }

    fn sequence(&self, item: Item) -> Result<Sequence, MalformedItem> {
        let mut item = StoredItem::new(&self.table, BATCH_ID, item)?;
        let last = item.number(LAST)?;
        Ok(Sequence {
            last: item.required(LAST, last)?,
            holder: item.text(HOLDER)?,
        })
    }
}

/// Returns the key of a scope's item: `sequence/<source>` or `sequence/<source>/<batch key>`. The ARN of a queue has no slash. If
/// the key would be too long, a hash stands for the batch key.
fn key(scope: &SequenceScope) -> String {
    let source = scope.source.as_str();
    let Some(batch_key) = &scope.batch_key else {
        return format!("sequence/{source}");
    };
    let key = format!("sequence/{source}/{}", batch_key.as_str());
    match key.len() <= KEY_BYTES_MAX {
        true => key,
        false => format!(
            "sequence/{source}/{}",
            BodyHash::of(batch_key.as_str().as_bytes())
        ),
    }
}

#[async_trait]
impl SequenceStore for DynamoSequenceStore {
    async fn read(&self, scope: &SequenceScope) -> Result<Sequence, PortError> {
        let item = named_items::read(&self.client, &self.table, key(scope)).await?;
        let sequence = item.map(|item| self.sequence(item)).transpose()?;
        Ok(sequence.unwrap_or_default())
    }

    async fn replace(
        &self,
        scope: &SequenceScope,
        from: Sequence,
        to: Sequence,
    ) -> Result<bool, PortError> {
        let set = "SET #last = :next, #source = :source";
        let mut call = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(BATCH_ID, s(key(scope)))
            .expression_attribute_names("#last", LAST)
            .expression_attribute_names("#holder", HOLDER)
            .expression_attribute_names("#source", "source")
            .expression_attribute_values(":last", n(from.last))
            .expression_attribute_values(":next", n(to.last))
            .expression_attribute_values(":source", s(scope.source.as_str()));
        // Permits the write only if the sequence was not written since it was read; without an item, the last number is 0.
        let same_last = match from.last {
            0 => "(attribute_not_exists(#last) OR #last = :last)",
            _ => "#last = :last",
        };
        let same_holder = match from.holder {
            None => "attribute_not_exists(#holder)",
            Some(holder) => {
                call = call.expression_attribute_values(":holder", s(holder.to_string()));
                "#holder = :holder"
            }
        };
        let call = match to.holder {
            None => call.update_expression(format!("{set} REMOVE #holder")),
            Some(holder) => call
                .expression_attribute_values(":part", s(holder.to_string()))
                .update_expression(format!("{set}, #holder = :part")),
        };
        let sent = call
            .condition_expression(format!("{same_last} AND {same_holder}"))
            .send()
            .await;
        applied(&self.table, sent)
    }
}
