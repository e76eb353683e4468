//! Reads pages: once for all who look at one, one at a time, and again while somebody looks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::page::Page;
use crate::site::{Address, Problem, Site};

/// The most pages that are read again and again. Others wait until one of them is left.
const PAGES_MAX: usize = 32;

/// What was read of a page; `None` until the first time.
pub(crate) type Read = Option<Result<Arc<Page>, Problem>>;

/// The pages that somebody looks at.
pub(crate) struct Reading {
    site: Arc<dyn Site>,
    /// The time between two looks.
    every: Duration,
    pages: Mutex<HashMap<Address, watch::Sender<Read>>>,
    turn: tokio::sync::Mutex<()>,
}

impl Reading {
    pub(crate) fn new(site: Arc<dyn Site>, every: Duration) -> Arc<Reading> {
        Arc::new(Reading {
            site,
            every,
            pages: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// Returns a page, as it is now and as it changes.
    ///
    /// # Errors
    /// Too many other pages are looked at.
    pub(crate) fn of(
        self: &Arc<Reading>,
        address: &Address,
    ) -> Result<watch::Receiver<Read>, Problem> {
        let mut pages = self.pages.lock().expect("no panic");
        if let Some(page) = pages.get(address) {
            return Ok(page.subscribe());
        }
        if pages.len() >= PAGES_MAX {
            return Err(Problem::Failed(format!(
                "{PAGES_MAX} other pages are looked at; close some, and try again in a few seconds"
            )));
        }
        let (sender, receiver) = watch::channel(None);
        pages.insert(address.clone(), sender.clone());
        tokio::spawn(Arc::clone(self).read_on(address.clone(), sender));
        Ok(receiver)
    }

    /// Reads a page as long as somebody looks at it.
    async fn read_on(self: Arc<Reading>, address: Address, page: watch::Sender<Read>) {
        loop {
            let read = {
                let _turn = self.turn.lock().await;
                let (site, address) = (Arc::clone(&self.site), address.clone());
                // A panic must not leave a page that is never read again.
                let read = tokio::spawn(async move { site.page(&address).await }).await;
                let read = read.unwrap_or_else(|panic| Err(Problem::Failed(panic.to_string())));
                read.map(Arc::new)
            };
            page.send_if_modified(|before| {
                let changes = before.as_ref() != Some(&read);
                *before = Some(read);
                changes
            });
            // Who comes within this time gets what was read.
            sleep(self.every).await;
            let mut pages = self.pages.lock().expect("no panic");
            if page.receiver_count() == 0 {
                pages.remove(&address);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::site::{Course, Operator, Plan, Verb};

    /// Counts reads.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    #[async_trait]
    impl Site for Counted {
        fn name(&self) -> String {
            "counted".to_owned()
        }

        fn menu(&self) -> Vec<(String, String)> {
            Vec::new()
        }

        async fn page(&self, _: &Address) -> Result<Page, Problem> {
            let count = self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Page::new(count.to_string()))
        }

        fn verbs(&self) -> Vec<Verb> {
            Vec::new()
        }

        async fn plan(&self, _: &str, _: &Address, _: &dyn Course) -> Result<Plan, Problem> {
            unreachable!("there are no verbs")
        }

        async fn carry_out(
            &self,
            _: &Plan,
            _: &Operator,
            _: &dyn Course,
        ) -> Result<String, Problem> {
            unreachable!("there are no verbs")
        }
    }

    fn address(path: &str) -> Address {
        Address {
            path: path.to_owned(),
            ..Address::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_look_at_a_page_have_it_read_once() {
        let site = Arc::new(Counted::default());
        let reading = Reading::new(site.clone(), Duration::from_secs(2));
        let mut viewers = Vec::from_iter((0..20).map(|_| reading.of(&address("/a")).unwrap()));
        for viewer in &mut viewers {
            viewer.wait_for(Option::is_some).await.unwrap();
        }
        assert_eq!(site.0.load(Ordering::Relaxed), 1);
        sleep(Duration::from_secs(60)).await;
        let reads = site.0.load(Ordering::Relaxed);
        assert!((30..=31).contains(&reads), "every two seconds: {reads}");
        drop(viewers);
        sleep(Duration::from_secs(60)).await;
        assert!(site.0.load(Ordering::Relaxed) <= reads + 1, "nobody looks");
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_bounded() {
        let reading = Reading::new(Arc::new(Counted::default()), Duration::from_secs(2));
        let path = |number: usize| address(&format!("/{number}"));
        let viewers =
            Vec::from_iter((0..PAGES_MAX).map(|number| reading.of(&path(number)).unwrap()));
        assert!(reading.of(&path(PAGES_MAX)).is_err());
        drop(viewers);
        sleep(Duration::from_secs(5)).await;
        assert!(reading.of(&path(PAGES_MAX)).is_ok());
    }
}
