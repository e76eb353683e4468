//! The proxies between the functions and the services. They count requests, and apply the faults.

use std::sync::Arc;

use emulators::proxy::{Observer, Proxy, Service};

use super::services::Services;
use crate::deploy::Endpoints;
use crate::ledger::Meter;

/// The running proxies, which the functions connect to.
pub(super) struct Proxies {
    pub(super) proxies: Vec<Proxy>,
    pub(super) endpoints: Endpoints,
    /// The endpoint of the proxy in front of the sink's receiver, if the sink has one.
    pub(super) receiver: Option<String>,
}

impl Proxies {
    pub(super) async fn start(services: &Services, meter: &Arc<Meter>) -> anyhow::Result<Proxies> {
        let Services {
            faults,
            sink,
            endpoints,
            ..
        } = services;
        let in_front_of = |service, endpoint, strikes| {
            let observer: Arc<dyn Observer> = Arc::clone(meter) as _;
            Proxy::start(service, endpoint, observer, strikes)
        };
        let mut proxies = vec![
            in_front_of(Service::DynamoDb, &endpoints.dynamodb, faults.on_dynamodb()).await?,
            in_front_of(Service::Sqs, &endpoints.sqs, faults.on_requests()).await?,
        ];
        let mut s3 = None;
        if let Some(endpoint) = &endpoints.s3 {
            let proxy = in_front_of(Service::S3, endpoint, faults.on_requests()).await?;
            s3 = Some(proxy.endpoint());
            proxies.push(proxy);
        }
        let endpoints = Endpoints {
            dynamodb: proxies[0].endpoint(),
            sqs: proxies[1].endpoint(),
            s3,
        };
        let mut receiver = None;
        if let Some(endpoint) = sink.receiver_endpoint() {
            let proxy = in_front_of(Service::Http, &endpoint, faults.on_requests()).await?;
            receiver = Some(proxy.endpoint());
            proxies.push(proxy);
        }
        Ok(Proxies {
            proxies,
            endpoints,
            receiver,
        })
    }
}
