//! AWS on loopback: SQS, DynamoDB, S3, and a Lambda host with its event source mapping, for the tests of any program.
//!
//! They speak the services' own protocols, so that a program needs no more than another endpoint. The facts they follow
//! are written beside them, each with its source. Each can be told to fail as the service may.
//!
//! # Examples
//!
//! A queue, used in the same process and served to any SDK:
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
//! A Lambda function, which is any executable that speaks the Runtime API:
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

//! DynamoDB (feature `dynamodb`, which compiles SQLite), behind a proxy that loses the replies to 2 % of the requests.
//! `dynamodb::TableFaults` has its write limits and the lag of an index:
//!
//! ```
//! use std::sync::Arc;
//!
//! use emulators::Percent;
//! use emulators::dynamodb::DynamoDb;
//! use emulators::proxy::{Proxy, RequestFaults, Service, Strikes};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dynamodb = DynamoDb::start().await?;
//! let seed = 1;
//! let strikes = Strikes {
//!     requests: Arc::new(RequestFaults::new(seed, "2".parse()?, Percent::default())),
//!     ..Strikes::default()
//! };
//! let observer = Arc::new(());
//! let proxy = Proxy::start(Service::DynamoDb, &dynamodb.endpoint(), observer, strikes).await?;
//! println!("AWS_ENDPOINT_URL_DYNAMODB={}", proxy.endpoint());
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod counter;
mod draws;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
pub mod files;
pub mod lambda;
pub mod loopback;
pub mod proxy;
#[cfg(feature = "s3")]
pub mod s3;
pub mod sqs;

/// Most bytes of an object here, and of any request to a stand-in; S3 takes 5 GB at once.
pub const OBJECT_BYTES_MAX: usize = 1 << 30;

pub use counter::Counter;
pub use draws::{Draws, NoPercent, Percent};
