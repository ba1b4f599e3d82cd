//! The page of the gateway, for its admin: sessions as they are, what they got and what was said of them. It is rendered here, is complete without
//! scripts, and has nothing from elsewhere. Every text of a client or a model is escaped by the templates. `live.js` alone runs in a browser, and
//! changes a page when the gateway's events say that something happened.
//!
//! [`login`] keeps who has shown the admin's key, [`pages`] reads what is shown of sessions, [`playbook`] and [`training`] of what is learned, [`cost`] what was
//! used, [`template`] renders it.

mod cost;
mod login;
mod pages;
mod playbook;
mod template;
mod training;

pub(crate) use login::Logins;

use crate::feedback;
use crate::http::{Inner, Refusal, body_of_form};
use crate::observe::{next_id, stream_to_page};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::routing::{get, post};
use clawhost_wire::ErrorKind;
use login::Visitor;
use std::collections::HashMap;
use std::sync::Arc;

type Shared = State<Arc<Inner>>;

/// Where the page is.
const HOME: &str = "/dashboard";
/// What a browser may load and do: style and script of the page's own files, requests and forms that lead back here. No script in a page, and no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");

/// The routes.
pub(crate) fn routes() -> Router<Arc<Inner>> {
    Router::new()
        .route(HOME, get(overview))
        .route("/dashboard/style.css", get(style))
        .route("/dashboard/live.js", get(script))
        .route("/dashboard/login", get(form).post(log_in))
        .route("/dashboard/logout", post(log_out))
        .route("/dashboard/training", get(training::show))
        .route("/dashboard/training/versions/{number}", get(training::ask).post(training::serve))
        .route("/dashboard/cost", get(cost::show))
        .route("/dashboard/playbook", get(playbook::show))
        .route("/dashboard/playbook/versions/{number}", get(playbook::ask).post(playbook::serve))
        .route("/dashboard/sessions/{run}/{episode}", get(session))
        .route("/dashboard/sessions/{run}/{episode}/feedback", post(judge))
}

/// The route of events, which is not observed: an open page is no request under way.
pub(crate) fn event_routes() -> Router<Arc<Inner>> {
    Router::new().route("/dashboard/events", get(events))
}

/// A page with the headers that every one has.
fn page(status: StatusCode, html: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(html));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    guarded(answer)
}

/// An answer with the headers that protect the page.
fn guarded(mut answer: Response<Body>) -> Response<Body> {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Without any referrer, browsers send forms with `Origin: null`, which the guard refuses.
        (header::REFERRER_POLICY, "same-origin"),
        // It shows conversations: no cache keeps them.
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Sends a browser to a place of the page.
fn go_to(place: &str) -> Response<Body> {
    let mut answer = page(StatusCode::SEE_OTHER, String::new());
    if let Ok(place) = HeaderValue::from_str(place) {
        answer.headers_mut().insert(header::LOCATION, place);
    }
    answer
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let status = StatusCode::from_u16(refusal.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    page(status, template::message(&refusal.message))
}

/// The answer to somebody who has shown the admin's key, or the form in which to show it.
async fn for_admin(
    gateway: &Inner,
    headers: &HeaderMap,
    answer: impl AsyncFnOnce(Visitor) -> Result<Response<Body>, Refusal>,
) -> Response<Body> {
    if let Err(refusal) = gateway.guard.address(headers) {
        return refused(&refusal);
    }
    match gateway.logins.visitor(headers, gateway.now_ms()) {
        None => page(StatusCode::UNAUTHORIZED, template::login(None)),
        Some(visitor) => {
            // Taken before anything is read: what happens meanwhile changes the page again.
            let visitor = Visitor { from: next_id(gateway), ..visitor };
            answer(visitor).await.unwrap_or_else(|refusal| refused(&refusal))
        }
    }
}

/// A file of the page, which has nothing to hide.
fn file(content: &'static str, kind: &'static str) -> Response<Body> {
    let mut answer = Response::new(Body::from(content));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    guarded(answer)
}

/// The answer to a form that somebody has sent who has shown the admin's key, from a page of this gateway.
async fn for_form(
    gateway: &Arc<Inner>,
    request: Request,
    answer: impl AsyncFnOnce(&HeaderMap, &HashMap<String, String>) -> Result<Response<Body>, Refusal>,
) -> Response<Body> {
    let (headers, fields) = match body_of_form(gateway, request).await {
        Ok(read) => read,
        Err(refusal) => return refused(&refusal),
    };
    for_admin(gateway, &headers, async |visitor: Visitor| {
        visitor.check(&fields)?;
        answer(&headers, &fields).await
    })
    .await
}

async fn style() -> Response<Body> {
    file(STYLE, "text/css; charset=utf-8")
}

async fn script() -> Response<Body> {
    file(SCRIPT, "text/javascript; charset=utf-8")
}

/// The events of the gateway, for the script.
async fn events(
    State(gateway): Shared,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response<Body> {
    for_admin(&gateway, &headers, async |_: Visitor| {
        stream_to_page(&gateway, headers.clone(), query.get("from").map(String::as_str)).map(guarded)
    })
    .await
}

async fn form(State(gateway): Shared, headers: HeaderMap) -> Response<Body> {
    match gateway.guard.address(&headers) {
        Ok(()) => page(StatusCode::OK, template::login(None)),
        Err(refusal) => refused(&refusal),
    }
}

async fn log_in(State(gateway): Shared, request: Request) -> Response<Body> {
    let (_, fields) = match body_of_form(&gateway, request).await {
        Ok(read) => read,
        Err(refusal) => return refused(&refusal),
    };
    let key = fields.get("key").map(String::as_str).unwrap_or_default();
    if !gateway.access.is_admins_key(key.trim()) {
        let why = "This is not the admin's key. It is in the file admin.key of the data folder.";
        return page(StatusCode::UNAUTHORIZED, template::login(Some(why)));
    }
    match gateway.logins.add(gateway.now_ms(), gateway.scheme() == "https") {
        Ok(cookie) => {
            let mut answer = go_to(HOME);
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
            answer
        }
        Err(refusal) => refused(&refusal),
    }
}

async fn log_out(State(gateway): Shared, request: Request) -> Response<Body> {
    for_form(&gateway, request, async |headers, _| {
        gateway.logins.remove(headers);
        Ok(go_to("/dashboard/login"))
    })
    .await
}

async fn overview(
    State(gateway): Shared,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response<Body> {
    for_admin(&gateway, &headers, async |visitor: Visitor| {
        let number = query.get("page").map_or(Ok(1), |number| number.parse::<u64>());
        let number = number.ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| Refusal::new(ErrorKind::Unprocessable, "page: must be a number from 1"))?;
        let shown = pages::overview(&gateway, number).await?;
        Ok(page(StatusCode::OK, template::overview(&shown, &visitor)))
    })
    .await
}

/// The episode that an address names.
fn named(names: &HashMap<String, String>) -> (String, String) {
    let part = |name: &str| names.get(name).cloned().unwrap_or_default();
    (part("run"), part("episode"))
}

async fn session(
    State(gateway): Shared,
    Path(names): Path<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response<Body> {
    for_admin(&gateway, &headers, async |visitor: Visitor| {
        let (run, episode) = named(&names);
        let shown = pages::session(&gateway, run, episode).await?;
        Ok(page(StatusCode::OK, template::session(&shown, &visitor)))
    })
    .await
}

/// Takes a thumb or a correction about a turn, and shows the session again.
async fn judge(State(gateway): Shared, Path(names): Path<HashMap<String, String>>, request: Request) -> Response<Body> {
    for_form(&gateway, request, async |_, fields| {
        let (run, episode) = named(&names);
        let field = |name: &str| fields.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        let turn = field("turn").map(str::parse::<u32>).transpose();
        let turn = turn.map_err(|_| Refusal::new(ErrorKind::Unprocessable, "turn: must be a number"))?;
        let place = pages::place(&gateway, run.clone(), episode.clone(), turn).await?;
        feedback::of_admin(&gateway, &place, field("thumb"), field("correction")).await?;
        let at = turn.map(|turn| format!("#turn-{turn}")).unwrap_or_default();
        Ok(go_to(&format!("{HOME}/sessions/{}/{}{at}", pages::escaped(&run), pages::escaped(&episode))))
    })
    .await
}
