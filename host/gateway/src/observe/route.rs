//! The labels of counted requests: what was asked for, and how it was answered. Both are short lists, so that counts stay bounded.

use crate::http::Shape;

/// What a request asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Route {
    Chat,
    Responses,
    Completions,
    Messages,
    Embeddings,
    CountTokens,
    /// Everything that asks no model.
    #[default]
    Other,
}

impl Route {
    pub(crate) const ALL: [Self; 7] = [
        Self::Chat,
        Self::Responses,
        Self::Completions,
        Self::Messages,
        Self::Embeddings,
        Self::CountTokens,
        Self::Other,
    ];

    /// The label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Completions => "completions",
            Self::Messages => "messages",
            Self::Embeddings => "embeddings",
            Self::CountTokens => "count_tokens",
            Self::Other => "other",
        }
    }
}

impl From<Shape> for Route {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Chat => Self::Chat,
            Shape::Responses => Self::Responses,
            Shape::Completions => Self::Completions,
            Shape::Messages => Self::Messages,
        }
    }
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusClass {
    Success,
    Redirect,
    ClientError,
    ServerError,
    /// The client has gone before there was an answer.
    Closed,
}

impl StatusClass {
    pub(crate) const ALL: [Self; 5] =
        [Self::Success, Self::Redirect, Self::ClientError, Self::ServerError, Self::Closed];

    /// The class of a status; `None` without an answer.
    pub(crate) fn of(status: Option<u16>) -> Self {
        match status {
            None => Self::Closed,
            Some(..300) => Self::Success,
            Some(300..400) => Self::Redirect,
            Some(400..500) => Self::ClientError,
            Some(_) => Self::ServerError,
        }
    }

    /// The label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Redirect => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Closed => "closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_its_place_in_the_list() {
        for (at, route) in Route::ALL.into_iter().enumerate() {
            assert_eq!(route as usize, at, "{route:?}");
        }
        for (at, class) in StatusClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, at, "{class:?}");
        }
    }

    #[test]
    fn statuses_have_their_class() {
        let check =
            |status: Option<u16>, expect: &str| assert_eq!(StatusClass::of(status).name(), expect, "{status:?}");
        check(Some(101), "2xx");
        check(Some(200), "2xx");
        check(Some(302), "3xx");
        check(Some(429), "4xx");
        check(Some(502), "5xx");
        check(None, "closed");
    }
}
