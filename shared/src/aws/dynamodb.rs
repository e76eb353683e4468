use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use aws_types::SdkConfig;

use super::operation::{Operation, Service};

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
    /// As `config` says, the client through its HTTP client and the operations through `connector`.
    ///
    /// Nothing is called. What `config` lacks shows in the first call.
    pub fn new(config: &SdkConfig, connector: SharedHttpConnector) -> DynamoDb {
        let service = Arc::new(Service::new(config, connector));
        DynamoDb {
            client: Client::new(config),
            batch_execute_statement: Operation::new(&service, "BatchExecuteStatement"),
            batch_get_item: Operation::new(&service, "BatchGetItem"),
            query: Operation::new(&service, "Query"),
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
