//! Emulators of AWS on loopback: SQS, DynamoDB, S3, and a Lambda host with its event source mapping, for the tests of any
//! program.
//!
//! The emulators speak the protocols of the services, so a program only needs another endpoint URL. Comments name the AWS
//! documentation behind each rule. Each emulator can inject faults that its service may show in production.
//!
//! | module | contents | faults |
//! |---|---|---|
//! | [`sqs`] | an SQS server, also usable within the process | duplicate deliveries |
//! | [`lambda`] | a host of Lambda functions, and an event source mapping from a queue to a function | killed environments |
//! | `s3` (feature `s3`, on by default) | an S3 server that stores objects as files | failed requests |
//! | `dynamodb` (feature `dynamodb`) | a DynamoDB server | an index that lags, throttled writes |
//! | [`eventbridge`] | an EventBridge server that keeps the events put on its buses | failed entries |
//! | `sam` (feature `sam`) | a reader of SAM templates, for the queues, tables and functions to start | |
//! | [`proxy`] | a proxy in front of any of these servers, or of another HTTP service | lost replies, errors, expired credentials |
//!
//! # Examples
//!
//! An SQS queue, used within the process and served to any SDK:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::time::Duration;
//!
//! use emulators::sqs::{QueueAttributes, Sqs};
//! use tokio::net::TcpListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sqs = Sqs::new();
//! sqs.create_queue("orders", QueueAttributes::default())?;
//! sqs.send("orders", "hello".to_owned(), None, BTreeMap::new())?;
//!
//! let received = sqs.receive("orders", 10, Duration::ZERO, None).await?;
//! assert_eq!(&*received[0].body, "hello");
//! // The message is in flight: until its visibility timeout ends, no other receive gets it.
//! assert!(sqs.receive("orders", 10, Duration::ZERO, None).await?.is_empty());
//! sqs.delete("orders", &received[0].receipt_handle)?;
//!
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let endpoint_url = format!("http://{}", listener.local_addr()?);
//! tokio::spawn(sqs.clone().serve(listener, std::future::pending()));
//! println!("AWS_ENDPOINT_URL_SQS={endpoint_url}");
//! # Ok(())
//! # }
//! ```
//!
//! A Lambda function. Its bootstrap is any executable that speaks the Runtime API:
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use std::time::Duration;
//!
//! use emulators::lambda::{Bootstrap, Function, FunctionConfig, InvokeResponse, print_logs};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = FunctionConfig {
//!     name: "hello".to_owned(),
//!     bootstrap: Bootstrap { program: "target/lambda/hello/bootstrap".into(), args: Vec::new() },
//!     variables: BTreeMap::new(),
//!     timeout: Duration::from_secs(3),
//!     memory_mb: 128,
//!     concurrency_per_environment: 1,
//! };
//! let function = Function::new(config, print_logs());
//! let response = function.invoke(r#"{"name": "world"}"#.into()).await?;
//! assert!(matches!(response, InvokeResponse::Ok(_)));
//! function.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! DynamoDB behind a proxy that loses the replies to 2 % of the requests. The feature `dynamodb` compiles SQLite.
//! `dynamodb::TableFaults` throttles writes and lets an index lag:
//!
//! ```
//! use std::sync::Arc;
//!
//! use emulators::Percent;
//! use emulators::dynamodb::DynamoDb;
//! use emulators::proxy::{Proxy, ProxyFaults, RequestFaults, Service};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dynamodb = DynamoDb::start().await?;
//! let seed = 1;
//! let faults = ProxyFaults {
//!     requests: Arc::new(RequestFaults::new(seed, "2".parse()?, Percent::default())),
//!     ..ProxyFaults::default()
//! };
//! let observer = Arc::new(());
//! let proxy = Proxy::start(Service::DynamoDb, &dynamodb.endpoint(), observer, faults).await?;
//! println!("AWS_ENDPOINT_URL_DYNAMODB={}", proxy.endpoint());
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

/// Compiles and runs the example of the page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod counter;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
pub mod eventbridge;
pub mod files;
pub mod lambda;
mod locked;
pub mod loopback;
pub mod proxy;
mod random;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "sam")]
pub mod sam;
pub mod sqs;
mod store_outcome;

/// Maximum number of bytes of an S3 object, and of a request to S3 or another HTTP service through a proxy: 1 GiB. AWS allows
/// 5 GB.
pub const OBJECT_BYTES_MAX: usize = 1 << 30;

pub use counter::Counter;
pub use random::{InvalidPercent, Percent, RandomStream};
pub use store_outcome::StoreOutcome;
