//! What the pages of a console have in common: the site, who may look, what is read, and what is done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use maud::Markup;
use tracing::warn;

use crate::guard::Guard;
use crate::html::{self, Frame};
use crate::jobs::Jobs;
use crate::reading::Reading;
use crate::site::{Address, Problem, Site};

/// How a console is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens. Port 0 is a free one.
    pub listen: SocketAddr,
    /// Whether verbs may be used.
    pub changes: bool,
    /// The name that the field `Who` has at first.
    pub by: String,
    /// The time between two looks at a page.
    pub every: Duration,
}

/// A console, as its pages know it.
pub(crate) struct Shared {
    pub site: Arc<dyn Site>,
    pub guard: Guard,
    pub reading: Arc<Reading>,
    pub jobs: Jobs,
    pub options: Options,
}

impl Shared {
    /// Returns a console that listens at an address.
    pub fn new(site: Arc<dyn Site>, options: Options, local: SocketAddr) -> Arc<Shared> {
        let mut hosts = vec![local.to_string()];
        if local.ip().is_loopback() {
            hosts.push(format!("localhost:{}", local.port()));
        }
        // Browsers send a cookie to all ports of a host: another console has one with another name.
        let guard = Guard::new(format!("console-{}", local.port()), hosts);
        Arc::new(Shared {
            reading: Reading::new(Arc::clone(&site), options.every),
            site,
            guard,
            jobs: Jobs::default(),
            options,
        })
    }

    pub fn frame(&self, here: String, is_live: bool) -> Frame {
        let mut menu = self.site.menu();
        if self.options.changes {
            let own = [("/do", "Do"), ("/jobs", "Jobs")];
            menu.extend(own.map(|(path, name)| (path.to_owned(), name.to_owned())));
        }
        Frame {
            name: self.site.name(),
            menu,
            here,
            is_live,
        }
    }

    pub fn reply(&self, status: StatusCode, here: &str, title: &str, content: &Markup) -> Response {
        let frame = self.frame(here.to_owned(), false);
        (status, Html(html::document(&frame, title, content))).into_response()
    }

    pub fn live(&self, here: &str, title: &str, content: &Markup) -> Response {
        let frame = self.frame(here.to_owned(), true);
        Html(html::document(&frame, title, content)).into_response()
    }

    pub fn problem(&self, here: &str, problem: &Problem) -> Response {
        let (status, title) = match problem {
            Problem::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
            Problem::Wrong(_) => (StatusCode::BAD_REQUEST, "Wrong value"),
            Problem::Failed(_) => (StatusCode::BAD_GATEWAY, "Not read"),
        };
        let content = html::problem(title, &problem.to_string());
        self.reply(status, here, title, &content)
    }

    /// Returns the page that refuses, if changes are off.
    pub fn allows_changes(&self, path: &str) -> Result<(), Box<Response>> {
        if self.options.changes {
            return Ok(());
        }
        warn!(%path, reason = "changes are off", "request refused");
        let content = html::problem(
            "Changes are off",
            "this console only shows; start it with `--allow-changes` to do something",
        );
        Err(Box::new(self.reply(
            StatusCode::FORBIDDEN,
            path,
            "Changes are off",
            &content,
        )))
    }
}

/// Leads to a path of the console.
pub(crate) fn see(path: &str) -> Response {
    // Browsers take `//` and `/\` for the beginning of another host.
    let path = format!("/{}", path.trim_start_matches(['/', '\\']));
    let location = HeaderValue::from_str(&path).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

/// Returns the path and the fields of an address.
pub(crate) fn address_of(uri: &Uri) -> Address {
    let fields = Query::try_from_uri(uri);
    Address {
        path: uri.path().to_owned(),
        fields: fields.map_or_else(|_| Vec::new(), |Query(fields)| fields),
    }
}
