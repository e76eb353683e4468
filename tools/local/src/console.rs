//! The console of the running stack: the pages and verbs of `batchctl`, and, while it is served, bursts to try.

mod tried;

use std::sync::Arc;
use std::time::Duration;

use ::console::{Address, Console, Course, Operator, Options, Page, Plan, Problem, Site, Verb};
use anyhow::Context;
use batchctl::console::StackSite;
use batchctl::service::Service;
use stack::{Connection, Settings};

use crate::stack::Stack;

/// The time between two looks at a page.
const EVERY: Duration = Duration::from_secs(1);

/// Serves the console of a stack on a free port.
///
/// # Errors
/// There is no free port, or the stack cannot be read.
pub(crate) async fn serve(stack: &Stack) -> anyhow::Result<Console> {
    start(Arc::new(site(stack).await?)).await
}

/// Serves the console of a stack that is sent no burst by itself.
///
/// # Errors
/// As [`serve`].
pub(crate) async fn serve_with_bursts(stack: &Arc<Stack>) -> anyhow::Result<Console> {
    let site = Trying {
        site: site(stack).await?,
        stack: Arc::clone(stack),
    };
    start(Arc::new(site)).await
}

async fn site(stack: &Stack) -> anyhow::Result<StackSite> {
    let variables = stack.client_variables().into_iter().collect();
    let settings = Settings::of_variables("this machine".to_owned(), variables);
    let lookup = |name: &str| settings.value(name).map(str::to_owned);
    let connection = Connection::new(&lookup).await?;
    let service = Arc::new(Service::of(settings.clone(), connection)?);
    Ok(StackSite::new(Arc::clone(&service), service))
}

async fn start(site: Arc<dyn Site>) -> anyhow::Result<Console> {
    let options = Options {
        listen: ([127, 0, 0, 1], 0).into(),
        changes: true,
        by: std::env::var("USER").unwrap_or_default(),
        every: EVERY,
    };
    Console::start(site, options)
        .await
        .context("serve the console")
}

/// The console of a stack, with bursts.
struct Trying {
    site: StackSite,
    stack: Arc<Stack>,
}

#[::console::async_trait]
impl Site for Trying {
    fn name(&self) -> String {
        self.site.name()
    }

    fn menu(&self) -> Vec<(String, String)> {
        let mut menu = self.site.menu();
        menu.insert(1, (format!("/do/{}", tried::VERB), "Try it".to_owned()));
        menu
    }

    async fn page(&self, address: &Address) -> Result<Page, Problem> {
        self.site.page(address).await
    }

    fn verbs(&self) -> Vec<Verb> {
        let mut verbs = vec![tried::verb()];
        verbs.extend(self.site.verbs());
        verbs
    }

    async fn plan(
        &self,
        verb: &str,
        fields: &Address,
        course: &dyn Course,
    ) -> Result<Plan, Problem> {
        match verb {
            tried::VERB => tried::plan(fields),
            other => self.site.plan(other, fields, course).await,
        }
    }

    async fn carry_out(
        &self,
        plan: &Plan,
        operator: &Operator,
        course: &dyn Course,
    ) -> Result<String, Problem> {
        match plan.verb.as_str() {
            tried::VERB => tried::burst(&self.stack, plan, course).await,
            _ => self.site.carry_out(plan, operator, course).await,
        }
    }
}
