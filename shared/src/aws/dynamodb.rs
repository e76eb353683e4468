use aws_sdk_dynamodb::Client;
use aws_types::SdkConfig;

use super::operation::Operation;

/// DynamoDB: its client, and beside it the operations that a message is a share of.
///
/// They have the names of the client's methods: by these, `infra/checks` knows what the functions must be granted.
#[derive(Clone, Debug)]
pub struct DynamoDb {
    client: Client,
    batch_execute_statement: Operation,
    batch_get_item: Operation,
    query: Operation,
}

impl DynamoDb {
    /// As `config` says; nothing is called. What `config` lacks shows in the first call.
    pub fn new(config: &SdkConfig) -> DynamoDb {
        DynamoDb {
            client: Client::new(config),
            batch_execute_statement: Operation::new(config, "BatchExecuteStatement"),
            batch_get_item: Operation::new(config, "BatchGetItem"),
            query: Operation::new(config, "Query"),
        }
    }

    /// The SDK's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn batch_execute_statement(&self) -> &Operation {
        &self.batch_execute_statement
    }

    pub(super) fn batch_get_item(&self) -> &Operation {
        &self.batch_get_item
    }

    pub(super) fn query(&self) -> &Operation {
        &self.query
    }
}
