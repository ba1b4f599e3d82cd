//! Rank correlations of episodes that occur several times each, as in resamples. Both take time in proportion to the episodes (Kendall's
//! times the logarithm of the different scores), because scores are sorted once.

use super::Sides;

/// The scores of a judge: of each episode the number of its score among the different ones, in ascending order.
pub(super) struct Levels {
    of: Vec<u32>,
    count: usize,
    /// Positions of episodes by score, ascending.
    order: Vec<u32>,
}

impl Levels {
    pub(super) fn of(scores: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<(u32, f64)> = (0..).zip(scores).collect();
        sorted.sort_by(|one, other| one.1.total_cmp(&other.1));
        let mut of = vec![0; sorted.len()];
        let (mut level, mut last) = (0, None);
        for (position, score) in &sorted {
            // 0 and -0 are one score.
            if last.is_some_and(|last: f64| last < *score) {
                level += 1;
            }
            last = Some(*score);
            if let Some(of) = of.get_mut(*position as usize) {
                *of = level;
            }
        }
        let count = if sorted.is_empty() { 0 } else { level as usize + 1 };
        Self { of, count, order: sorted.into_iter().map(|(position, _)| position).collect() }
    }

    /// Number of different scores.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How often each level occurs.
    fn totals(&self, times: &[u32]) -> Vec<u64> {
        let mut totals = vec![0u64; self.count];
        for (level, times) in self.of.iter().zip(times) {
            if let Some(total) = totals.get_mut(*level as usize) {
                *total += u64::from(*times);
            }
        }
        totals
    }

    /// The mid-rank of each level, from 1: episodes with equal scores share the mean of their ranks.
    fn mid_ranks(&self, times: &[u32]) -> Vec<f64> {
        let mut before = 0u64;
        let rank = |total: u64| {
            let rank = before as f64 + (total as f64 + 1.0) / 2.0;
            before += total;
            rank
        };
        self.totals(times).into_iter().map(rank).collect()
    }

    /// Of each episode the share of episodes below it, half of those with an equal score included: 0 to 1.
    pub(super) fn places(&self) -> Vec<f64> {
        let ranks = self.mid_ranks(&vec![1; self.of.len()]);
        let count = self.of.len() as f64;
        let place = |level: &u32| ranks.get(*level as usize).map_or(0.5, |rank| (rank - 0.5) / count);
        self.of.iter().map(place).collect()
    }
}

/// Spearman's rho: the correlation of mid-ranks. `None`: one judge gives one score only.
pub(super) fn spearman(levels: &Sides<Levels>, times: &[u32]) -> Option<f64> {
    let ranks = Sides { a: levels.a.mid_ranks(times), b: levels.b.mid_ranks(times) };
    let count: f64 = times.iter().map(|times| f64::from(*times)).sum();
    // The mean of mid-ranks is that of ranks.
    let middle = (count + 1.0) / 2.0;
    let (mut of_a, mut of_b, mut of_both) = (0.0, 0.0, 0.0);
    for ((a, b), times) in levels.a.of.iter().zip(&levels.b.of).zip(times) {
        let (a, b) = (ranks.a.get(*a as usize)? - middle, ranks.b.get(*b as usize)? - middle);
        let times = f64::from(*times);
        of_a += times * a * a;
        of_b += times * b * b;
        of_both += times * a * b;
    }
    // Rounding may lead beyond the ends.
    (of_a > 0.0 && of_b > 0.0).then(|| (of_both / (of_a.sqrt() * of_b.sqrt())).clamp(-1.0, 1.0))
}

/// Sums over levels, which can be asked for all below one (Fenwick 1994).
struct Below(Vec<u64>);

impl Below {
    fn add(&mut self, level: u32, times: u64) {
        let mut at = level as usize + 1;
        while let Some(sum) = self.0.get_mut(at) {
            *sum += times;
            at += at & at.wrapping_neg();
        }
    }

    /// The sum of the first `levels` levels.
    fn first(&self, levels: usize) -> u64 {
        let (mut at, mut sum) = (levels, 0);
        while at > 0 {
            sum += self.0.get(at).copied().unwrap_or(0);
            at -= at & at.wrapping_neg();
        }
        sum
    }
}

/// Kendall's tau-b: pairs in the same order minus pairs in opposite order, divided by the geometric mean of the pairs that each judge
/// orders. Occurrences of one episode are ties of both. `None`: one judge gives one score only.
pub(super) fn kendall(levels: &Sides<Levels>, times: &[u32]) -> Option<f64> {
    let pairs = |count: u64| count as f64 * (count as f64 - 1.0) / 2.0;
    let ordered = |levels: &Levels| {
        let totals = levels.totals(times);
        pairs(totals.iter().sum()) - totals.into_iter().map(pairs).sum::<f64>()
    };
    let below = (ordered(&levels.a), ordered(&levels.b));
    if below.0 <= 0.0 || below.1 <= 0.0 {
        return None;
    }
    let mut seen = Below(vec![0; levels.b.count + 1]);
    let (mut all, mut more) = (0u64, 0.0);
    // Episodes with equal scores of A wait until all of them were compared with those before.
    let mut waiting: Vec<(u32, u64)> = Vec::new();
    let mut last = None;
    for position in &levels.a.order {
        let position = *position as usize;
        let (a, b) = (*levels.a.of.get(position)?, *levels.b.of.get(position)?);
        let times = u64::from(*times.get(position)?);
        if last != Some(a) {
            for (b, times) in waiting.drain(..) {
                seen.add(b, times);
                all += times;
            }
            last = Some(a);
        }
        if times > 0 {
            let (lower, up_to) = (seen.first(b as usize), seen.first(b as usize + 1));
            more += times as f64 * (lower as f64 - (all - up_to) as f64);
            waiting.push((b, times));
        }
    }
    Some((more / (below.0.sqrt() * below.1.sqrt())).clamp(-1.0, 1.0))
}
