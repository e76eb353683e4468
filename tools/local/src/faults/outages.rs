//! The outages of the sink, and the timeline of a run from which they count.

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use emulators::Counter;
use tokio::sync::watch;

/// A time during which the sink is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outage {
    /// When the outage begins, from the start of the burst.
    pub at: Duration,
    pub duration: Duration,
}

/// A text that cannot be parsed as an outage.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("wrong form: got `{0}`, expected AT:FOR, two numbers of seconds, the second over 0")]
pub struct MalformedOutage(String);

impl Outage {
    /// Returns when the outage ends, from the start of the burst.
    pub fn end(self) -> Duration {
        self.at + self.duration
    }
}

impl FromStr for Outage {
    type Err = MalformedOutage;

    fn from_str(text: &str) -> Result<Outage, MalformedOutage> {
        let secs = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
        let outage = text.split_once(':').and_then(|(at, duration)| {
            Some(Outage {
                at: secs(at)?,
                duration: secs(duration).filter(|duration| !duration.is_zero())?,
            })
        });
        outage.ok_or_else(|| MalformedOutage(text.to_owned()))
    }
}

/// The clock of a run. It starts when the burst begins.
#[derive(Debug, Default)]
pub struct Timeline {
    begun: watch::Sender<Option<(Instant, SystemTime)>>,
    /// When all outages ended, from the start of the burst, if they were ended before their time.
    outages_ended: watch::Sender<Option<Duration>>,
}

impl Timeline {
    /// Starts the clock. Later calls change nothing.
    pub fn begin(&self) {
        self.begun.send_if_modified(|begun| {
            let first = begun.is_none();
            begun.get_or_insert_with(|| (Instant::now(), SystemTime::now()));
            first
        });
    }

    /// Returns the time since the start of the burst; zero if it has not started.
    pub(super) fn elapsed(&self) -> Duration {
        let begun = *self.begun.borrow();
        begun.map_or(Duration::ZERO, |(instant, _)| instant.elapsed())
    }

    /// Returns the system time `after` the start of the burst; `None` if it has not started.
    pub(crate) fn clock_at(&self, after: Duration) -> Option<SystemTime> {
        let begun = *self.begun.borrow();
        begun.map(|(_, clock)| clock + after)
    }

    /// Waits until `after` the start of the burst.
    pub(crate) async fn wait_until(&self, after: Duration) {
        let mut begun = self.begun.subscribe();
        // An error would mean that the sender was dropped, but `self` has it.
        let begun = begun.wait_for(Option::is_some).await.map(|begun| *begun);
        let Ok(Some((instant, _))) = begun else {
            return;
        };
        tokio::time::sleep_until((instant + after).into()).await;
    }

    /// Ends the present outage, and cancels the later ones.
    pub(super) fn end_outages(&self) {
        let now = self.elapsed();
        self.outages_ended.send_modify(|ended| {
            ended.get_or_insert(now);
        });
    }

    /// Returns the outage with the duration that it had, or `None` if it was cancelled before it began.
    pub(super) fn actual(&self, outage: Outage) -> Option<Outage> {
        let Some(ended) = *self.outages_ended.borrow() else {
            return Some(outage);
        };
        let duration = outage.duration.min(ended.checked_sub(outage.at)?);
        Some(Outage { duration, ..outage })
    }

    /// Waits until all outages are ended.
    pub(super) async fn until_outages_end(&self) {
        let mut ended = self.outages_ended.subscribe();
        // An error would mean that the sender was dropped, but `self` has it.
        let _ = ended.wait_for(Option::is_some).await;
    }
}

/// The outages of one run.
#[derive(Debug)]
pub struct Outages {
    outages: Vec<(Outage, Counter)>,
    timeline: Arc<Timeline>,
}

impl Outages {
    /// Returns outages with counters of refused requests. No outage may begin before the one before it ends.
    pub fn new(outages: &[Outage], timeline: Arc<Timeline>) -> Outages {
        let outages = outages.iter();
        Outages {
            outages: outages.map(|one| (*one, Counter::default())).collect(),
            timeline,
        }
    }

    /// Returns whether the sink is down now, and counts the request that asks as refused.
    pub(crate) fn refuses(&self) -> bool {
        let current = self.current();
        current.inspect(|(_, refused)| refused.add(1)).is_some()
    }

    /// Returns whether the sink is down now. Counts nothing.
    pub(super) fn is_down(&self) -> bool {
        self.current().is_some()
    }

    fn current(&self) -> Option<&(Outage, Counter)> {
        let elapsed = self.timeline.elapsed();
        let now = |outage: Outage| {
            let outage = self.timeline.actual(outage);
            outage.is_some_and(|outage| (outage.at..outage.end()).contains(&elapsed))
        };
        self.outages.iter().find(|(outage, _)| now(*outage))
    }

    /// Returns how many requests were refused in each outage.
    pub(super) fn refused(&self) -> Vec<u64> {
        let outages = self.outages.iter();
        outages.map(|(_, refused)| refused.get()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(text: &str) -> Outage {
        text.parse().unwrap()
    }

    #[test]
    fn an_outage_is_two_numbers_of_seconds() {
        let (at, duration) = (Duration::from_millis(1_500), Duration::from_secs(20));
        assert_eq!(outage("1.5:20"), Outage { at, duration });
        assert_eq!(outage("1.5:20").end(), Duration::from_millis(21_500));
        for text in ["", "5", "5:", ":5", "5:0", "-1:5", "a:5", "1:2:3"] {
            let malformed = MalformedOutage(text.to_owned());
            assert_eq!(text.parse::<Outage>(), Err(malformed));
        }
    }

    #[test]
    fn the_sink_is_down_at_the_times_that_were_asked_for_and_refusals_are_counted() {
        let timeline = Arc::new(Timeline::default());
        let asked = [outage("0:3600"), outage("7200:1")];
        let outages = Outages::new(&asked, Arc::clone(&timeline));
        assert!(outages.refuses(), "also before the burst has begun");
        timeline.begin();
        assert!(outages.refuses() && outages.is_down());
        assert_eq!(outages.refused(), [2, 0]);
        let later = Outages::new(&asked[1..], timeline);
        assert!(!later.refuses());
        assert_eq!(later.refused(), [0]);
    }

    #[tokio::test]
    async fn a_time_is_reached_only_after_the_burst_has_begun() {
        let timeline = Timeline::default();
        let reached = timeline.wait_until(Duration::from_millis(20));
        tokio::pin!(reached);
        assert!(futures::poll!(&mut reached).is_pending());
        assert_eq!(timeline.clock_at(Duration::ZERO), None);
        timeline.begin();
        let begun = timeline.clock_at(Duration::ZERO).unwrap();
        reached.await;
        assert!(timeline.elapsed() >= Duration::from_millis(20));
        timeline.begin();
        assert_eq!(timeline.clock_at(Duration::ZERO), Some(begun));
    }
}
