//! `batchctl console`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use console::{Console, Options};
use stack::{Connection, Pace, Settings};

use crate::console::StackSite;
use crate::failure::{Done, Failure};
use crate::interrupt::Interrupt;
use crate::service::Service;

/// How often pages send requests to the stack, however many look at them. What is done by a verb does not wait.
const PACE: Pace = Pace {
    per_second: 5,
    at_once: 50,
};
/// The time between two looks at a page.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Args)]
pub struct ConsoleArgs {
    /// Where it listens; port 0 is a free one. Anything but loopback is open to the network, without TLS
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Allow what changes something: retry, discard, redrive and the others
    #[arg(long)]
    pub allow_changes: bool,
}

/// Serves the pages until Ctrl-C, and prints their address.
pub async fn run(
    settings: Settings,
    connection: Connection,
    args: &ConsoleArgs,
) -> Result<Done, Failure> {
    let address = args.listen;
    if address.ip().is_unspecified() {
        return Err(Failure::Usage(format!(
            "`--listen`: got `{address}`, expected the address by which browsers reach it"
        )));
    }
    let pages = Service::of(settings.clone(), connection.clone().paced(PACE))?;
    let verbs = Service::of(settings, connection)?;
    let site = Arc::new(StackSite::new(Arc::new(pages), Arc::new(verbs)));
    let options = Options {
        listen: address,
        changes: args.allow_changes,
        by: std::env::var("USER").unwrap_or_default(),
        every: EVERY,
    };
    let failed = |error| Failure::Usage(format!("`--listen`: `{address}`: {error}"));
    let console = Console::start(site, options).await.map_err(failed)?;
    println!("{}", console.address());
    let interrupt = Interrupt::listen().map_err(Failure::Signals)?;
    interrupt.signalled().await;
    // What a job has begun must not be left half done.
    tokio::select! {
        () = console.finish() => {}
        () = interrupt.given_up() => {}
    }
    Ok(interrupt.signal().map_or(Done::Yes, Done::Stopped))
}
