//! `batchctl watch`.

use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until};

use super::list::{Batches, ListArgs};
use crate::failure::{Done, Failure};
use crate::interrupt::Signal;
use crate::listing::list;
use crate::outcome::Output;
use crate::overview::{Look, Overview};
use crate::screen::{Key, Screen, draw, draw_first};
use crate::service::Service;
use crate::times::{short, utc};

/// How often the same look is drawn, because a line of the log takes the terminal.
const REDRAW_EVERY: Duration = Duration::from_secs(5);

#[derive(Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub list: ListArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub every: u64,
    /// Stop after so many looks [default: at Ctrl-C]
    #[arg(long, value_name = "N")]
    pub looks: Option<u64>,
}

/// What one look at the stack saw.
#[derive(Debug, Serialize)]
struct Seen {
    #[serde(flatten)]
    overview: Overview,
    #[serde(flatten)]
    batches: Batches,
}

/// Shows the state of the stack, again and again: on a terminal in place, otherwise one look after another.
pub async fn run(service: &Service, args: &WatchArgs, output: Output<'_>) -> Result<Done, Failure> {
    match (output, std::io::stdout().is_terminal()) {
        (Output::Text, true) => show(service, args, output).await,
        _ => print(service, args, output).await,
    }
}

async fn print(service: &Service, args: &WatchArgs, output: Output<'_>) -> Result<Done, Failure> {
    let mut look = Look::default();
    let mut looks = 0;
    loop {
        let seen = Seen::of(service, args, &mut look).await?;
        output.print(&seen, &seen);
        looks += 1;
        if args.looks.is_some_and(|max| looks >= max) {
            return Ok(Done::Yes);
        }
        tokio::select! {
            () = sleep(args.every()) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Done::Yes),
        }
    }
}

async fn show(service: &Service, args: &WatchArgs, output: Output<'_>) -> Result<Done, Failure> {
    let mut ends = Ends::listen().map_err(Failure::Signals)?;
    let mut screen = Screen::open()?;
    screen.draw(|frame| draw_first(frame, &service.settings.name))?;
    let mut look = Look::default();
    let mut looks = 0;
    loop {
        let seen = tokio::select! {
            seen = Seen::of(service, args, &mut look) => seen?,
            done = ends.end(&mut screen) => return Ok(done),
        };
        looks += 1;
        if args.looks.is_some_and(|max| looks >= max) {
            // What was seen last stays.
            drop(screen);
            output.print(&seen, &seen);
            return Ok(Done::Yes);
        }
        let next_at = Instant::now() + args.every();
        while Instant::now() < next_at {
            screen.draw(|frame| draw(frame, &seen.overview, look.history(), &seen.batches))?;
            tokio::select! {
                () = sleep_until(next_at.min(Instant::now() + REDRAW_EVERY)) => {}
                next = ends.next(&mut screen) => if let Some(done) = next {
                    return Ok(done);
                },
            }
        }
    }
}

/// What ends the command, beside its own end.
struct Ends {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl Ends {
    /// Listens to the signals from now on.
    fn listen() -> std::io::Result<Ends> {
        Ok(Ends {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a key or a signal. Returns how the command ends; `None` if the terminal has another size.
    async fn next(&mut self, screen: &mut Screen) -> Option<Done> {
        tokio::select! {
            key = screen.key() => (key == Key::End).then_some(Done::Yes),
            _ = self.interrupt.recv() => Some(Done::Yes),
            _ = self.terminate.recv() => Some(Done::Stopped(Signal::Terminate)),
        }
    }

    /// Waits for the end.
    async fn end(&mut self, screen: &mut Screen) -> Done {
        loop {
            if let Some(done) = self.next(screen).await {
                return done;
            }
        }
    }
}

impl WatchArgs {
    fn every(&self) -> Duration {
        Duration::from_secs(self.every)
    }
}

impl Seen {
    async fn of(service: &Service, args: &WatchArgs, look: &mut Look) -> Result<Seen, Failure> {
        let overview = look.look(service).await?;
        let listing = list(service, &args.list.filter, args.list.limit).await?;
        Ok(Seen {
            overview,
            batches: Batches::read(service, &listing).await?,
        })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overview {
            at, stack, counts, ..
        } = &self.overview;
        writeln!(f, "{}  {stack}", utc(*at))?;
        write!(f, "{counts}")?;
        match counts.overdue_since {
            Some(since) => writeln!(f, " (for {})\n", short(since.until(*at)))?,
            None => writeln!(f, "\n")?,
        }
        write!(f, "{}", self.batches)
    }
}

#[cfg(test)]
mod tests {
    use protocol::time::Timestamp;
    use shared::memory::Fakes;

    use super::*;
    use crate::fake_service;
    use crate::filter::Filter;

    #[tokio::test]
    async fn a_look_is_one_object_and_a_few_lines() {
        let fakes = Fakes::at(Timestamp::from_ms(90_000));
        let service = fake_service::service(&fakes, &[]);
        let args = WatchArgs {
            list: ListArgs {
                filter: Filter::default(),
                limit: 7,
            },
            every: 3,
            looks: Some(1),
        };
        let seen = Seen::of(&service, &args, &mut Look::default()).await;
        let mut seen = seen.unwrap();
        let json = serde_json::to_value(&seen).unwrap();
        for name in [
            "at",
            "stack",
            "open",
            "sealed",
            "processing",
            "error",
            "overdue",
            "matching",
        ] {
            assert!(json.get(name).is_some(), "{name}: {json}");
        }
        assert_eq!(json["batches"], serde_json::json!([]));
        let at = utc(seen.overview.at);
        let counts = "open 0  sealed 0  processing 0  error 0  overdue 0";
        let expected = format!("{at}  test\n{counts}\n\n0 batches\n");
        assert_eq!(seen.to_string(), expected);
        let since = seen.overview.at.saturating_sub(Duration::from_secs(62));
        seen.overview.counts.overdue_since = Some(since);
        assert!(
            seen.to_string().contains("overdue 0 (for 1 min 2 s)\n\n"),
            "{seen}"
        );
    }
}
