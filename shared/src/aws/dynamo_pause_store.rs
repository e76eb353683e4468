use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use protocol::pause::{Pause, Pauses};

use super::attributes::{Item, MalformedItem, StoredItem, ms, s};
use super::batch_items::BATCH_ID;
use super::named_items::{self, VERSION};
use crate::ports::{PauseStore, PortError};

/// The key of the one item with all pauses. No batch has it: a batch id is a UUID.
const KEY: &str = "pauses";
/// The list of pauses.
const PAUSES: &str = "pauses";
/// The list of former pauses. Earlier versions do not know it, and drop it when they write.
const FORMER: &str = "former";

/// The pauses of deliveries, in one item of the batch table.
#[derive(Clone, Debug)]
pub struct DynamoPauseStore {
    client: Client,
    table: String,
}

impl DynamoPauseStore {
    /// Returns the pauses in the batch table `table`.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoPauseStore {
        DynamoPauseStore {
            client,
            table: table.into(),
        }
    }

    fn pauses(&self, item: Item) -> Result<Pauses, MalformedItem> {
        let mut item = StoredItem::new(&self.table, BATCH_ID, item)?;
        let version = item.number(VERSION)?;
        Ok(Pauses {
            pauses: read_pauses(&mut item, PAUSES)?,
            former: read_pauses(&mut item, FORMER)?,
            version: item.required(VERSION, version)?,
        })
    }
}

#[async_trait]
impl PauseStore for DynamoPauseStore {
    async fn read(&self) -> Result<Pauses, PortError> {
        let item = named_items::read(&self.client, &self.table, KEY.to_owned()).await?;
        let pauses = item.map(|item| self.pauses(item)).transpose()?;
        Ok(pauses.unwrap_or_default())
    }

    async fn write(&self, pauses: &Pauses) -> Result<bool, PortError> {
        let lists = [(PAUSES, &pauses.pauses), (FORMER, &pauses.former)];
        let list =
            |pauses: &Vec<Pause>| AttributeValue::L(pauses.iter().map(pause_value).collect());
        let attributes = lists.map(|(name, pauses)| (name.to_owned(), list(pauses)));
        let attributes = Item::from(attributes);
        let (client, table) = (&self.client, &self.table);
        named_items::replace(client, table, KEY.to_owned(), pauses.version, attributes).await
    }
}

fn pause_value(pause: &Pause) -> AttributeValue {
    let mut map = Item::from([
        ("until".to_owned(), ms(pause.until)),
        ("at".to_owned(), ms(pause.at)),
        ("by".to_owned(), s(&pause.by)),
        ("why".to_owned(), s(&pause.why)),
    ]);
    if let Some(source) = &pause.source {
        map.insert("source".to_owned(), s(source.as_str()));
    }
    if let Some(key) = &pause.batch_key {
        map.insert("batchKey".to_owned(), s(key.as_str()));
    }
    AttributeValue::M(map)
}

fn read_pauses(item: &mut StoredItem<'_>, attribute: &str) -> Result<Vec<Pause>, MalformedItem> {
    let pauses = item.maps(attribute)?.into_iter();
    let pauses = pauses.map(|pause| read_pause(item.nested(pause)));
    pauses.collect()
}

fn read_pause(mut pause: StoredItem<'_>) -> Result<Pause, MalformedItem> {
    let (until, at) = (pause.time_ms("until")?, pause.time_ms("at")?);
    let (by, why) = (pause.string("by")?, pause.string("why")?);
    Ok(Pause {
        source: pause.text("source")?,
        batch_key: pause.text("batchKey")?,
        until: pause.required("until", until)?,
        at: pause.required("at", at)?,
        by: pause.required("by", by)?,
        why: pause.required("why", why)?,
    })
}
