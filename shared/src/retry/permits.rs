//! The limit on requests in flight of an environment.

use std::future::Future;
use std::pin::pin;

use futures::future::{Either, select};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::budget::Budget;
use crate::ports::PortError;

/// Permits for the requests of one environment, shared by all its invocations.
#[derive(Debug)]
pub struct RequestPermits(Semaphore);

impl RequestPermits {
    pub fn new(requests_max: usize) -> RequestPermits {
        RequestPermits(Semaphore::new(requests_max))
    }

    /// Waits for a permit, while there is time for a request. Dropping the permit returns it.
    ///
    /// # Errors
    /// [`PortError::DeadlineReached`] when the permit came too late. A request that is sent within the deadline margin may
    /// still be in flight when Lambda freezes the environment.
    pub async fn acquire(&self, budget: &Budget<'_>) -> Result<SemaphorePermit<'_>, PortError> {
        let permit = match self.0.try_acquire() {
            Ok(permit) => permit,
            // Other invocations may keep all permits for longer than this one has time.
            Err(_) => match select(pin!(self.0.acquire()), pin!(budget.until_end())).await {
                Either::Left((permit, _)) => permit.expect("the semaphore is never closed"),
                Either::Right(_) => return Err(PortError::DeadlineReached),
            },
        };
        match budget.has_time() {
            true => Ok(permit),
            false => Err(PortError::DeadlineReached),
        }
    }

    /// Sends a request with a permit.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and the errors of the request.
    pub async fn with<T>(
        &self,
        budget: &Budget<'_>,
        request: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        let _permit = self.acquire(budget).await?;
        request.await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::time::Timestamp;

    use super::*;
    use crate::memory::{ManualClock, SeededEntropy};
    use crate::ports::Clock;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    fn budget_of_a_second<'a>(clock: &'a ManualClock, entropy: &'a SeededEntropy) -> Budget<'a> {
        Budget {
            clock,
            entropy,
            stop_at: clock.now() + Duration::from_secs(1),
        }
    }

    #[tokio::test]
    async fn repro_a_request_waited_for_a_permit_until_its_invocation_timed_out() {
        let (clock, entropy) = (ManualClock::at(START), SeededEntropy::new(1));
        let budget = budget_of_a_second(&clock, &entropy);
        let permits = RequestPermits::new(1);
        let others = permits.acquire(&budget).await.unwrap();
        let error = permits.acquire(&budget).await.unwrap_err();
        assert!(matches!(error, PortError::DeadlineReached), "{error:?}");
        assert_eq!(clock.now(), budget.stop_at);
        drop(others);
    }

    #[tokio::test]
    async fn repro_a_request_that_got_its_place_after_the_margin_was_sent_all_the_same() {
        let (clock, entropy) = (ManualClock::at(START), SeededEntropy::new(1));
        let budget = budget_of_a_second(&clock, &entropy);
        let permits = RequestPermits::new(1);
        let first = permits.acquire(&budget).await.unwrap();
        let second = permits.with(&budget, async { Ok("sent") });
        let first_ends_late = async {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_secs(1));
            drop(first);
        };
        let (second, ()) = futures::future::join(second, first_ends_late).await;
        let error = second.unwrap_err();
        assert!(matches!(error, PortError::DeadlineReached), "{error:?}");
        // Nobody has the permit now.
        let error = permits.acquire(&budget).await.unwrap_err();
        assert!(matches!(error, PortError::DeadlineReached), "{error:?}");
    }
}
