//! Serves the pages.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream::{self, Stream, StreamExt};
use maud::{Markup, html};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::doing;
use crate::guard::Refused;
use crate::html;
use crate::jobs::Standing;
use crate::site::{Problem, Site};
use crate::state::{Options, Shared, address_of, see};

/// How long a page waits for what is read. Then the frame is sent, and the rest follows.
const FIRST_READ: Duration = Duration::from_millis(50);
/// The most bytes of a form.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// The time between two signs of life on a connection that waits for news.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time between two looks whether the session of a connection has ended.
const SESSION_LOOK: Duration = Duration::from_secs(5);
/// What a page may load: what this server has, and nothing from within a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// A console that is served until this is dropped.
pub struct Console {
    address: String,
    server: JoinHandle<()>,
    shared: Arc<Shared>,
}

impl Console {
    /// Serves a site.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub async fn start(site: Arc<dyn Site>, options: Options) -> io::Result<Console> {
        let listener = TcpListener::bind(options.listen).await?;
        let local = listener.local_addr()?;
        let shared = Shared::new(site, options, local);
        let router = routes(Arc::clone(&shared));
        let token = shared.guard.token().to_owned();
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                warn!(%error, "the console has ended");
            }
        });
        Ok(Console {
            address: format!("http://{local}/?token={token}"),
            server,
            shared,
        })
    }

    /// Returns the address that a session begins at. Whoever has it may use the console.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Has all jobs stopped, and waits until they say how far they got.
    pub async fn finish(&self) {
        for (_, job) in self.shared.jobs.all() {
            job.stop();
            let mut standing = job.watch();
            // The job has the sender.
            let _ = standing
                .wait_for(|one| !matches!(one, Standing::Runs(_)))
                .await;
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Returns the service of a console that listens at an address, and the token that begins a session.
pub fn router(site: Arc<dyn Site>, options: Options, local: SocketAddr) -> (Router, String) {
    let shared = Shared::new(site, options, local);
    let token = shared.guard.token().to_owned();
    (routes(shared), token)
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/live", get(live))
        .route("/do", get(doing::verbs))
        .route("/do/{verb}", get(doing::verb).post(doing::plan))
        .route("/jobs", get(doing::jobs))
        .route("/jobs/{id}", get(doing::job))
        .route("/jobs/{id}/confirm", post(doing::confirm))
        .route("/jobs/{id}/stop", post(doing::stop))
        .route("/sign-out", post(sign_out))
        .fallback(get(page))
        .layer(from_fn_with_state(Arc::clone(&shared), check))
        .route("/static/style.css", get(style))
        .route("/static/live.js", get(script))
        .layer(from_fn_with_state(Arc::clone(&shared), check_origin))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .with_state(shared)
}

async fn style() -> impl IntoResponse {
    (
        [(CONTENT_TYPE, "text/css; charset=utf-8")],
        include_str!("assets/style.css"),
    )
}

async fn script() -> impl IntoResponse {
    let script = include_str!("assets/live.js");
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], script)
}

/// Refuses requests for other hosts, and those that other sites make; adds the headers that every reply has.
async fn check_origin(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let checked = shared
        .guard
        .check_origin(request.method(), request.headers());
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refused) => refuse(&request, refused),
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Begins a session if the address has the token; otherwise refuses requests without one.
async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let now = Instant::now();
    let address = address_of(request.uri());
    if let Some(token) = address.field("token") {
        return match shared.guard.begin(token, now) {
            // The token does not stay in the address, where others may see it.
            Some(cookie) => {
                let mut response = see(address.path.as_str());
                let cookie = HeaderValue::from_str(&cookie).expect("it is plain ASCII");
                response.headers_mut().insert(SET_COOKIE, cookie);
                response
            }
            None => refuse(&request, Refused::Session),
        };
    }
    match shared.guard.check_session(request.headers(), now) {
        Ok(()) => next.run(request).await,
        Err(refused) => refuse(&request, refused),
    }
}

fn refuse(request: &Request, refused: Refused) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    warn!(%method, %path, reason = %refused, "request refused");
    (StatusCode::FORBIDDEN, format!("{refused}\n")).into_response()
}

/// A page of the site.
async fn page(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let here = uri.path_and_query().map_or("/", |path| path.as_str());
    if uri.path() == "/" {
        let menu = shared.site.menu();
        return see(menu.first().map_or("/do", |(path, _)| path));
    }
    let mut page = match shared.reading.of(&address_of(&uri)) {
        Ok(page) => page,
        Err(problem) => return shared.problem(here, &problem),
    };
    let read = tokio::time::timeout(FIRST_READ, page.wait_for(Option::is_some)).await;
    let read = read.ok().and_then(|read| read.ok()?.clone());
    match read {
        Some(Ok(page)) => shared.live(here, &page.title, &html::page(&page)),
        Some(Err(problem @ Problem::Failed(_))) => {
            let content = html::problem("Not read", &problem.to_string());
            shared.live(here, "Not read", &content)
        }
        Some(Err(problem)) => shared.problem(here, &problem),
        None => {
            let content = html! { h1 { "Reading" } p role="status" { "The stack is being read." } };
            shared.live(here, "Reading", &content)
        }
    }
}

#[derive(serde::Deserialize)]
struct LiveQuery {
    address: String,
}

/// Sends the content of a page, and sends it again when it changes.
async fn live(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(query): Query<LiveQuery>,
) -> Response {
    let ended = session_end(Arc::clone(&shared), headers);
    let Ok(uri) = query.address.parse::<Uri>() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if let Some(id) = uri.path().strip_prefix("/jobs/") {
        return match doing::news(&shared, id) {
            Ok(news) => events(news, ended),
            Err(response) => *response,
        };
    }
    match shared.reading.of(&address_of(&uri)) {
        Ok(page) => {
            let news = stream::unfold((page, false), async |(mut page, was_sent)| {
                match was_sent {
                    true => page.changed().await.ok()?,
                    false => drop(page.wait_for(Option::is_some).await.ok()?),
                }
                let read = page.borrow_and_update().clone()?;
                Some((read, (page, true)))
            });
            let pages = news.map(|read| match read {
                Ok(page) => html::page(&page),
                Err(problem) => html::problem("Not read", &problem.to_string()),
            });
            events(pages, ended)
        }
        Err(problem) => shared.problem("/", &problem),
    }
}

/// Waits until a session ends. Who looks at a page uses it.
async fn session_end(shared: Arc<Shared>, headers: HeaderMap) {
    while shared.guard.check_session(&headers, Instant::now()).is_ok() {
        tokio::time::sleep(SESSION_LOOK).await;
    }
}

fn events(
    news: impl Stream<Item = Markup> + Send + 'static,
    ended: impl Future<Output = ()> + Send + 'static,
) -> Response {
    let pages = news
        .take_until(Box::pin(ended))
        .map(|content| Event::default().event("page").data(content.into_string()));
    let end = stream::once(async { Event::default().event("end").data("end") });
    let events = pages.chain(end).map(Ok::<_, Infallible>);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Sse::new(events).keep_alive(keep_alive).into_response()
}

/// Ends the session.
async fn sign_out(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    shared.guard.end(request.headers());
    "The session has ended.\n".into_response()
}
