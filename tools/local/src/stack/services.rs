//! Starts the services of the stack, and the sink.

use std::sync::Arc;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_types::SdkConfig;
use emulators::dynamodb::DynamoDb;
use emulators::lambda::REGION;
use emulators::sqs::Sqs;
use tokio::sync::oneshot;

use crate::bodies;
use crate::deploy::{self, Endpoints};
use crate::dynamodb::BATCH_TABLE;
use crate::faults::{Faults, SinkGate};
use crate::notices::NoticeHost;
use crate::options::StackOptions;
use crate::sink::{SinkHost, SinkKind};

use super::ports::Ports;

/// The running services. Their endpoints are their own, not those of the proxies.
pub(super) struct Services {
    pub(super) sqs: Sqs,
    /// Dropping this stops the SQS server.
    pub(super) sqs_stop: oneshot::Sender<()>,
    pub(super) sqs_client: aws_sdk_sqs::Client,
    pub(super) dynamodb: DynamoDb,
    pub(super) dynamodb_client: aws_sdk_dynamodb::Client,
    pub(super) faults: Arc<Faults>,
    pub(super) sink: SinkHost,
    pub(super) sink_gate: Option<SinkGate>,
    pub(super) notices: Option<NoticeHost>,
    pub(super) endpoints: Endpoints,
}

impl Services {
    pub(super) async fn start(options: &StackOptions) -> anyhow::Result<Services> {
        let sqs = Sqs::new();
        let ports = Ports::bind(options.port)?;
        ports.sqs.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(ports.sqs)?;
        let sqs_endpoint = format!("http://{}", listener.local_addr()?);
        let tables = deploy::resources(options, &sqs_endpoint)?.tables;
        let faults = Arc::new(Faults::new(&options.faults, tables.get(BATCH_TABLE))?);
        let errors = &faults.sink_errors;
        let sink = SinkHost::start(options.sink, options.out.as_deref(), ports.s3, errors).await?;
        let sink_gate = match options.sink {
            SinkKind::File => faults.sink_gate(sink.out(), sink.work())?,
            _ => None,
        };
        let notices = match options.completion {
            Some(kind) => Some(NoticeHost::start(kind, &sqs).await?),
            None => None,
        };
        let dynamodb = DynamoDb::start_on(ports.dynamodb).await?;
        for bucket in bodies::buckets(&options.variables, &options.faults.redeploys) {
            sink.others.create_bucket(&bucket);
        }
        let (sqs_stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(sqs.clone().serve(listener, async {
            let _ = stopped.await;
        }));
        let endpoints = Endpoints {
            dynamodb: dynamodb.endpoint(),
            sqs: sqs_endpoint,
            s3: sink.others.s3_endpoint(),
        };
        Ok(Services {
            sqs,
            sqs_stop,
            sqs_client: aws_sdk_sqs::Client::new(&sdk_config(&endpoints.sqs)),
            dynamodb_client: aws_sdk_dynamodb::Client::new(&sdk_config(&endpoints.dynamodb)),
            dynamodb,
            faults,
            sink,
            sink_gate,
            notices,
            endpoints,
        })
    }
}

fn sdk_config(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("local", "local", None, None, "local");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint)
        .build()
}
