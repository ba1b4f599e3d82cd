//! Routers: they choose a model for a session.

use crate::{Context, OptionSpec, Random, Result};

pub use crate::bindings::router::exports::clawhost::router::router::{
    Candidate, Choice, Feature, Propensity, Request as RouteRequest,
};

/// A draw is one of this many numbers, from 0 to below 1: as fine as a double has them all.
const DRAWS: f64 = (1u64 << 53) as f64;

/// A router. It sees numbers about the request that opens a session, and the candidates by name and price; never a text, an address or a
/// key. The interface is unstable: it may change within the 0.1 track.
pub trait Router: 'static {
    /// Short name.
    const NAME: &'static str;
    /// Your version.
    const VERSION: &'static str = "0.1.0";
    /// One line for people.
    const SUMMARY: &'static str = "";

    /// All options that this router reads. The host refuses others.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Checks the operator's options. Called once, before anything is routed.
    ///
    /// # Errors
    /// The options are invalid. The text says which, and what is expected.
    fn check(context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Chooses one of at most 32 candidates. Give each of them a probability, and use [`Choice::drawn`]: what the log of a router tells about
    /// other routers depends on these numbers being true.
    ///
    /// # Errors
    /// There is no choice. The session is then given the operator's incumbent, and the failure is counted.
    fn route(request: &RouteRequest, candidates: &[Candidate], context: &Context) -> Result<Choice>;
}

impl RouteRequest {
    /// A request with these features, for tests.
    pub fn new<'f>(features: impl IntoIterator<Item = (&'f str, f64)>) -> Self {
        let features = features.into_iter().map(|(name, value)| Feature { name: name.to_owned(), value });
        Self { features: features.collect(), extra: Vec::new() }
    }

    /// The value of a feature.
    pub fn feature(&self, name: &str) -> Option<f64> {
        self.features.iter().find(|known| known.name == name).map(|known| known.value)
    }

    /// Characters of the conversation.
    pub fn characters(&self) -> f64 {
        // It comes as the logarithm of one plus the count.
        self.feature("characters").unwrap_or_default().exp_m1()
    }
}

impl Candidate {
    /// A model of a name and a price, for tests.
    pub fn new(name: impl Into<String>, price: f64) -> Self {
        Self { name: name.into(), price, then_price: None, extra: Vec::new() }
    }
}

impl Choice {
    /// Draws one of the candidates with the seed of the context. `weights` are for the candidates in their order, and are divided by their
    /// sum; those that are missing, negative or not finite count as 0.
    ///
    /// # Errors
    /// No weight is above 0.
    pub fn drawn(candidates: &[Candidate], weights: &[f64], context: &Context) -> Result<Self> {
        let weight = |at: usize| weights.get(at).copied().filter(|weight| weight.is_finite() && *weight > 0.0);
        let weights: Vec<f64> = (0..candidates.len()).map(|at| weight(at).unwrap_or_default()).collect();
        let sum: f64 = weights.iter().sum();
        if !(sum.is_finite() && sum > 0.0) {
            return Err("no candidate has a weight above 0".into());
        }
        let propensities: Vec<Propensity> = candidates
            .iter()
            .zip(&weights)
            .map(|(known, weight)| Propensity { candidate: known.name.clone(), probability: weight / sum })
            .collect();
        let mut left = (Random::new(context.seed).next_u64() >> 11) as f64 / DRAWS;
        let mut chosen = None;
        for known in propensities.iter().filter(|known| known.probability > 0.0) {
            // Rounding may leave a rest after the last one, which then is chosen.
            chosen = Some(known.candidate.clone());
            left -= known.probability;
            if left < 0.0 {
                break;
            }
        }
        Ok(Self { candidate: chosen.unwrap_or_default(), propensities, extra: Vec::new() })
    }

    /// Takes one candidate with a probability of 1 minus `floor`, and shares the floor (0 to 1) out equally between all. Without a floor nothing
    /// is ever known about the others.
    ///
    /// # Errors
    /// There is no candidate of this name.
    pub fn mostly(name: &str, floor: f64, candidates: &[Candidate], context: &Context) -> Result<Self> {
        if !candidates.iter().any(|known| known.name == name) {
            return Err(format!("there is no candidate {name}").into());
        }
        let floor = floor.clamp(0.0, 1.0);
        let share = floor / candidates.len() as f64;
        let own = |known: &Candidate| if known.name == name { share + 1.0 - floor } else { share };
        Self::drawn(candidates, &candidates.iter().map(own).collect::<Vec<f64>>(), context)
    }

    /// The probability of a candidate.
    pub fn probability(&self, name: &str) -> Option<f64> {
        self.propensities.iter().find(|known| known.candidate == name).map(|known| known.probability)
    }
}

/// Exports a [`Router`] as a plugin. Outside wasm it only checks that the type is one.
#[macro_export]
macro_rules! export_router {
    ($ty:ty) => {
        const _: () = {
            #[cfg(target_arch = "wasm32")]
            type Exported = $crate::guest::RouterGuest<$ty>;
            #[cfg(target_arch = "wasm32")]
    $crate::__export_router_plugin_impl!(Exported with_types_in $crate::bindings::router);
            #[cfg(not(target_arch = "wasm32"))]
            const fn is_a_router<R: $crate::Router>() {}
            #[cfg(not(target_arch = "wasm32"))]
            is_a_router::<$ty>();
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates() -> Vec<Candidate> {
        vec![Candidate::new("small", 1.0), Candidate::new("large", 10.0)]
    }

    fn drawn(weights: &[f64], seed: u64) -> Result<Choice> {
        Choice::drawn(&candidates(), weights, &Context::new(seed, Vec::new()))
    }

    #[test]
    fn draws_follow_the_weights_and_the_seed() {
        let small = (0..10_000).filter(|seed| drawn(&[1.0, 3.0], *seed).unwrap().candidate == "small").count();
        assert!((2_300..2_700).contains(&small), "{small} of 10,000 at a probability of 0.25");
        let choice = drawn(&[1.0, 3.0], 7).unwrap();
        assert_eq!((choice.probability("small"), choice.probability("large")), (Some(0.25), Some(0.75)));
        assert_eq!(choice.candidate, drawn(&[1.0, 3.0], 7).unwrap().candidate);
        assert!((0..100).all(|seed| drawn(&[0.0, 1.0], seed).unwrap().candidate == "large"));
    }

    #[test]
    fn weights_that_are_no_numbers_count_as_none() {
        let choice = drawn(&[f64::NAN, 2.0], 1).unwrap();
        assert_eq!((choice.probability("small"), choice.probability("large")), (Some(0.0), Some(1.0)));
        assert_eq!(drawn(&[2.0], 1).unwrap().probability("large"), Some(0.0));
        for weights in [&[0.0, -1.0][..], &[f64::INFINITY, f64::NAN], &[]] {
            assert_eq!(drawn(weights, 1).unwrap_err().message(), "no candidate has a weight above 0");
        }
    }

    #[test]
    fn a_floor_is_shared_between_all() {
        let context = Context::new(1, Vec::new());
        let choice = Choice::mostly("large", 0.2, &candidates(), &context).unwrap();
        let of = |name: &str| choice.probability(name).unwrap();
        assert!((of("small") - 0.1).abs() < 1e-12 && (of("large") - 0.9).abs() < 1e-12);
        assert!(Choice::mostly("none", 0.2, &candidates(), &context).is_err());
    }

    #[test]
    fn a_count_is_read_back_from_its_logarithm() {
        let request = RouteRequest::new([("characters", 800_f64.ln_1p()), ("code", 1.0)]);
        assert!((request.characters() - 800.0).abs() < 1e-9);
        assert_eq!((request.feature("code"), request.feature("none")), (Some(1.0), None));
    }
}
