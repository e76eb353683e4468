//! Requests to the console.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ::console::{
    Address, Content, Course, Field, Operator, Options, Page, Plan, Problem, Site, Text, Verb,
    router,
};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use tokio::runtime::Runtime;
use tower::ServiceExt;

const HOST: &str = "127.0.0.1:4000";
const ORIGIN: &str = "http://127.0.0.1:4000";
const ACT: &str = "act";
/// The longest reply that is looked at.
const REPLY_BYTES_MAX: usize = 1 << 22;

/// Shows every field of its address.
struct Echo;

#[::console::async_trait]
impl Site for Echo {
    fn name(&self) -> String {
        "echo".to_owned()
    }

    fn menu(&self) -> Vec<(String, String)> {
        vec![("/echo".to_owned(), "Echo".to_owned())]
    }

    async fn page(&self, address: &Address) -> Result<Page, Problem> {
        if address.path != "/echo" {
            return Err(Problem::NotFound(format!(
                "`{}`: no such page",
                address.path
            )));
        }
        let fields = address.fields.iter().cloned();
        let facts = fields.map(|(name, value)| (name, Text::link(value.clone(), value)));
        Ok(Page::new("Echo").with("", Content::Facts(facts.collect())))
    }

    fn verbs(&self) -> Vec<Verb> {
        vec![Verb {
            name: ACT.to_owned(),
            title: "Act".to_owned(),
            about: String::new(),
            fields: vec![Field::text("on", "On", "")],
            asks: true,
        }]
    }

    async fn plan(&self, verb: &str, fields: &Address, _: &dyn Course) -> Result<Plan, Problem> {
        Ok(Plan {
            verb: verb.to_owned(),
            shown: fields.field("on").unwrap_or_default().to_owned(),
            steps: Vec::new(),
            seen: String::new(),
        })
    }

    async fn carry_out(&self, _: &Plan, _: &Operator, _: &dyn Course) -> Result<String, Problem> {
        unreachable!("nothing is ever to be done")
    }
}

struct Served {
    runtime: Runtime,
    router: Router,
    cookie: String,
}

static SERVED: LazyLock<Served> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime starts");
    let options = Options {
        listen: HOST.parse().expect("it is an address"),
        changes: true,
        by: String::new(),
        every: Duration::from_millis(1),
    };
    let (router, token) = router(
        Arc::new(Echo),
        options,
        HOST.parse().expect("it is an address"),
    );
    let request = Request::get(format!("/?token={token}")).header("host", HOST);
    let request = request.body(Body::empty()).expect("it is a request");
    let response = runtime.block_on(router.clone().oneshot(request));
    let response = response.expect("the router always replies");
    let cookie = response.headers()["set-cookie"]
        .to_str()
        .expect("it is text");
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    Served {
        runtime,
        router,
        cookie,
    }
});

/// A request: its method, its path with a query, who sends it, and a form, each in a line.
///
/// # Panics
/// When a reply has markup of the request, leads to another host, or may load what is not the console's; or when one without a session
/// is not refused.
pub fn console(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (method, path, from, form) = (line(), line(), line(), line());
    // A page that goes on is no page to read to its end, and the session is needed again.
    if path.starts_with("/live") || path.starts_with("/sign-out") {
        return;
    }
    let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET);
    let Ok(request) = Request::builder()
        .method(method.clone())
        .uri(path)
        .header("host", HOST)
        .header("content-type", "application/x-www-form-urlencoded")
        .header(
            "origin",
            if from == "other" {
                "http://other"
            } else {
                ORIGIN
            },
        )
        .header(
            "cookie",
            if from == "nobody" {
                "console=0"
            } else {
                &SERVED.cookie
            },
        )
        .body(Body::from(form.to_owned()))
    else {
        return;
    };
    let is_static = request.uri().path().starts_with("/static/");
    let (status, headers, body) = SERVED.runtime.block_on(async {
        let response = SERVED.router.clone().oneshot(request).await;
        let (parts, body) = response.expect("the router always replies").into_parts();
        let body = to_bytes(body, REPLY_BYTES_MAX)
            .await
            .expect("a reply is short");
        (parts.status, parts.headers, body)
    });
    let is_change = !matches!(method, Method::GET | Method::HEAD);
    if !is_static && (from == "nobody" || (from == "other" && is_change)) {
        assert_eq!(status, 403, "{path}");
    }
    assert_ne!(status, 500, "{path}");
    let policy = headers["content-security-policy"]
        .to_str()
        .expect("it is text");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    if let Some(location) = headers.get("location") {
        let location = location.to_str().expect("it is text");
        assert!(
            location.starts_with('/') && !location.starts_with("//"),
            "{location}"
        );
    }
    let body = String::from_utf8_lossy(&body);
    let is_html = headers
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if is_html {
        // The frame has one script, and no handler.
        let scripts = body.matches("<script").count();
        assert!(
            scripts <= 1
                && (scripts == 0
                    || body.contains("<script src=\"/static/live.js\" defer></script>"))
        );
        assert!(
            !body.contains("<img")
                && !body.contains("href=\"javascript:")
                && !body.contains("href=\"//"),
            "{body}"
        );
        assert!(
            !body
                .chars()
                .any(|one| one.is_ascii_control() && one != '\n'),
            "{body:?}"
        );
    }
}
