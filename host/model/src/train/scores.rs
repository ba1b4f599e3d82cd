//! The input and the output of a loss.

/// Scores of the trained tokens of one sequence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenScores {
    /// Natural logarithm of each token's probability, after temperature.
    pub logprobs: Vec<f64>,
    /// Entropy of the distribution that each token was drawn from, in nats.
    pub entropies: Vec<f64>,
    /// Log-probs of the tokens beside each token. Empty: the sequence has none.
    pub beside: Vec<Vec<f64>>,
}

/// The result of a loss for some units: its derivative by each log-prob, one list per unit in the order of [`super::Sequence::targets`],
/// and a value of the caller's choice (a metric).
pub type Wanted<T> = (Vec<Vec<f64>>, T);
