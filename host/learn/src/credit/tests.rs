//! Tests of the estimates; `simulation` tests the decisions.

use super::*;
use crate::random::Random;
use crate::{EntryId, Group, Member};
use clawhost_core::EpisodeId;
use std::collections::BTreeMap;

fn entry(name: &str) -> EntryId {
    EntryId(name.into())
}

fn group(drawn: &[&str], members: &[(u64, f64)]) -> Group {
    let member = |(shown, reward): &(u64, f64)| Member {
        episode: EpisodeId(String::new()),
        reward: *reward,
        shown: *shown,
        generated: None,
    };
    Group {
        task: "t".into(),
        seed: 0,
        drawn: drawn.iter().map(|name| entry(name)).collect(),
        propensity: 0.5,
        members: members.iter().map(member).collect(),
    }
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Groups of two to five members with up to five entries. Each entry adds a tenth of its index to the reward.
fn random_groups(count: usize, seed: u64) -> Vec<Group> {
    let mut random = Random(seed);
    let groups = (0..count).map(|_| {
        let mut drawn = NAMES.to_vec();
        drawn.retain(|_| random.uniform() < 0.7);
        let difficulty = random.normal();
        let members: Vec<(u64, f64)> = (0..2 + random.below(4))
            .map(|_| {
                let shown = random.next() & ((1 << drawn.len()) - 1);
                let seen = drawn.iter().enumerate().filter(|(bit, _)| (shown >> bit) & 1 == 1);
                let help: usize = seen.map(|(_, name)| NAMES.iter().position(|other| other == name).unwrap()).sum();
                (shown, 0.1 * help as f64 + difficulty + 0.3 * random.normal())
            })
            .collect();
        group(&drawn, &members)
    });
    groups.collect()
}

fn observed<'a>(groups: impl IntoIterator<Item = &'a Group>) -> Credit {
    let mut credit = Credit::default();
    groups.into_iter().for_each(|group| credit.observe(group));
    credit
}

fn near(one: &BTreeMap<EntryId, Estimate>, other: &BTreeMap<EntryId, Estimate>, tolerance: f64) {
    assert!(one.keys().eq(other.keys()), "{one:?}\n{other:?}");
    for ((entry, one), other) in one.iter().zip(other.values()) {
        let pairs = [(one.effect, other.effect), (one.standard_error, other.standard_error)];
        let close = pairs.iter().all(|(one, other)| (one - other).abs() <= tolerance);
        assert!(close, "{entry}:\n{one:?}\n{other:?}");
        assert_eq!((one.groups, one.episodes), (other.groups, other.episodes), "{entry}");
    }
}

/// Solves `a x = b` by elimination with pivots.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let order = b.len();
    for at in 0..order {
        let pivot = (at..order).max_by(|one, other| a[*one][at].abs().total_cmp(&a[*other][at].abs())).unwrap();
        a.swap(at, pivot);
        b.swap(at, pivot);
        for row in (0..order).filter(|row| *row != at) {
            let factor = a[row][at] / a[at][at];
            (0..order).for_each(|column| a[row][column] -= factor * a[at][column]);
            b[row] -= factor * b[at];
        }
    }
    (0..order).map(|at| b[at] / a[at][at]).collect()
}

/// The vector times the inverse square root of a symmetric matrix, by its eigenvectors (Jacobi's rotations). Directions that the matrix maps to
/// nothing are left out.
fn inverse_root(mut matrix: Vec<Vec<f64>>, vector: &[f64]) -> Vec<f64> {
    let order = vector.len();
    let mut vectors: Vec<Vec<f64>> =
        (0..order).map(|row| (0..order).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    for _ in 0..50 {
        for p in 0..order {
            for q in p + 1..order {
                if matrix[p][q].abs() < 1e-300 {
                    continue;
                }
                let angle = 0.5 * (2.0 * matrix[p][q]).atan2(matrix[q][q] - matrix[p][p]);
                let (sine, cosine) = angle.sin_cos();
                for row in matrix.iter_mut().chain(vectors.iter_mut()) {
                    let (one, other) = (row[p], row[q]);
                    (row[p], row[q]) = (cosine * one - sine * other, sine * one + cosine * other);
                }
                let (one, other) = (matrix[p].clone(), matrix[q].clone());
                for at in 0..order {
                    matrix[p][at] = cosine * one[at] - sine * other[at];
                    matrix[q][at] = sine * one[at] + cosine * other[at];
                }
            }
        }
    }
    let mut sum = vec![0.0; order];
    for at in (0..order).filter(|at| matrix[*at][*at] > 1e-9) {
        let along: f64 = (0..order).map(|row| vectors[row][at] * vector[row]).sum();
        (0..order).for_each(|row| sum[row] += vectors[row][at] * along / matrix[at][at].sqrt());
    }
    sum
}

/// The explicit regression with a column for each entry and for each group.
#[test]
fn estimates_equal_those_of_the_explicit_regression() {
    let groups = random_groups(30, 1);
    let taught: Vec<&Group> = groups
        .iter()
        .filter(|group| {
            let seen = |bit: usize| group.members.iter().filter(|member| (member.shown >> bit) & 1 == 1).count();
            (0..group.drawn.len()).any(|bit| (1..group.members.len()).contains(&seen(bit)))
        })
        .collect();
    let width = NAMES.len() + taught.len();
    let mut rows: Vec<(Vec<f64>, f64)> = Vec::new();
    for (number, group) in taught.iter().enumerate() {
        for member in &group.members {
            let mut row = vec![0.0; width];
            row[NAMES.len() + number] = 1.0;
            for (bit, entry) in group.drawn.iter().enumerate().filter(|(bit, _)| (member.shown >> bit) & 1 == 1) {
                assert_eq!(bit, group.drawn.iter().position(|other| other == entry).unwrap());
                row[NAMES.iter().position(|name| *name == entry.0).unwrap()] = 1.0;
            }
            rows.push((row, member.reward));
        }
    }
    let products = |weight: &dyn Fn(&(Vec<f64>, f64)) -> f64| {
        let mut sum = vec![vec![0.0; width]; width];
        for row in &rows {
            for (line, left) in sum.iter_mut().zip(&row.0) {
                line.iter_mut().zip(&row.0).for_each(|(cell, right)| *cell += left * right * weight(row));
            }
        }
        sum
    };
    let normal = products(&|_| 1.0);
    let moments = (0..width).map(|at| rows.iter().map(|(row, reward)| row[at] * reward).sum()).collect();
    let effects = solve(normal.clone(), moments);
    let residual = |(row, reward): &(Vec<f64>, f64)| {
        reward - row.iter().zip(&effects).map(|(value, effect)| value * effect).sum::<f64>()
    };
    // The influence of a column on each row: of a member's residual on the effect.
    let influence =
        |at: usize| solve(normal.clone(), (0..width).map(|other| f64::from(u8::from(other == at))).collect());
    let dot = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(left, right)| left * right).sum::<f64>();

    let estimates = observed(&groups).estimates();
    assert_eq!(estimates.len(), NAMES.len());
    for (at, (name, estimate)) in NAMES.iter().zip(estimates.values()).enumerate() {
        let weights = influence(at);
        let variance: f64 = (0..taught.len())
            .map(|number| {
                let own: Vec<&(Vec<f64>, f64)> =
                    rows.iter().filter(|(row, _)| row[NAMES.len() + number] == 1.0).collect();
                let count = own.len();
                // What is left of the group when all effects are taken out of it: the identity minus the projection.
                let mut left = vec![vec![0.0; count]; count];
                for (i, (row, _)) in own.iter().enumerate() {
                    let solved = solve(normal.clone(), row.clone());
                    for (j, (other, _)) in own.iter().enumerate() {
                        left[i][j] = f64::from(u8::from(i == j)) - dot(other, &solved);
                    }
                }
                let residuals: Vec<f64> = own.iter().map(|row| residual(row)).collect();
                let enlarged = inverse_root(left, &residuals);
                own.iter().zip(enlarged).map(|((row, _), residual)| dot(row, &weights) * residual).sum::<f64>().powi(2)
            })
            .sum();
        let expect = (variance + (estimate.episodes as f64).powi(-2)).sqrt();
        assert!((estimate.effect - effects[at]).abs() < 1e-6, "{name}: {estimate:?} {}", effects[at]);
        assert!((estimate.standard_error - expect).abs() < 1e-6, "{name}: {estimate:?} {expect}");
        assert_eq!(estimate.residual_degrees, (rows.len() - width) as i64);
    }
}

#[test]
fn only_groups_with_both_arms_of_an_entry_count() {
    let check = |drawn: &[&str], members: &[(u64, f64)], expect: &[(&str, u64, u64)]| {
        let estimates = observed([&group(drawn, members)]).estimates();
        let counts: Vec<(&str, u64, u64)> =
            estimates.iter().map(|(entry, known)| (entry.0.as_str(), known.groups, known.episodes)).collect();
        assert_eq!(counts, expect, "{drawn:?} {members:?}");
    };
    check(&["a"], &[(1, 1.0), (0, 0.0)], &[("a", 1, 2)]);
    check(&["b", "a"], &[(1, 1.0), (2, 0.0), (3, 0.5)], &[("a", 1, 3), ("b", 1, 3)]);
    check(&[], &[(0, 1.0), (0, 0.0)], &[]);
    check(&["a"], &[(1, 1.0)], &[]);
    check(&["a"], &[(1, 1.0), (1, 0.0)], &[]);
    check(&["a", "b"], &[(1, 1.0), (3, 0.0)], &[("b", 1, 2)]);
    check(&["a"], &[(1, f64::NAN), (0, 0.0)], &[]);
    // A bit without an entry.
    check(&["a"], &[(2, 1.0), (0, 0.0)], &[]);
}

#[test]
fn an_entry_listed_twice_counts_once() {
    let once = observed([&group(&["a"], &[(1, 1.0), (0, 0.0), (0, 0.5)])]);
    let twice = observed([&group(&["a", "a"], &[(3, 1.0), (0, 0.0), (0, 0.5)])]);
    assert_eq!(once.estimates(), twice.estimates());
}

#[test]
fn few_groups_or_degrees_of_freedom_are_not_decidable() {
    // Each group of four has three degrees of freedom; each column takes one.
    let check = |groups: usize, members: usize, columns: usize, decidable: bool| {
        let mut random = Random(7);
        let names = &[
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u",
            "v",
        ][..columns];
        let members = |random: &mut Random| {
            // Half of the members are shown each entry, so that every group counts.
            let mut shown = vec![0_u64; members];
            for bit in 0..columns {
                let first = random.below(members);
                (0..members / 2).for_each(|step| shown[(first + step) % members] |= 1 << bit);
            }
            shown.into_iter().map(|shown| (shown, random.uniform() + (shown & 1) as f64)).collect::<Vec<_>>()
        };
        let groups: Vec<Group> = (0..groups).map(|_| group(names, &members(&mut random))).collect();
        let known = observed(&groups).estimates()[&entry("a")].clone();
        assert_eq!(known.decidable, decidable, "{known:?}");
        assert_eq!((known.admit > 1.0, known.harm < 1.0), (decidable, decidable), "{known:?}");
    };
    check(5, 16, 1, false);
    check(6, 16, 1, true);
    // 3 x 13 - 1 and 3 x 14 - 1.
    check(13, 4, 1, false);
    check(14, 4, 1, true);
    // 3 x 21 - 22 and 3 x 22 - 22, beside 2 x 22.
    check(21, 4, 22, false);
    check(22, 4, 22, true);
}

#[test]
fn dropping_an_entry_equals_never_having_drawn_it() {
    for gone in NAMES {
        let groups = random_groups(60, 2);
        let without: Vec<Group> = groups
            .iter()
            .map(|whole| {
                let kept: Vec<usize> = (0..whole.drawn.len()).filter(|bit| whole.drawn[*bit].0 != gone).collect();
                let names: Vec<&str> = kept.iter().map(|bit| whole.drawn[*bit].0.as_str()).collect();
                let renumbered =
                    |shown: u64| kept.iter().enumerate().map(|(new, old)| ((shown >> old) & 1) << new).sum::<u64>();
                let members: Vec<(u64, f64)> =
                    whole.members.iter().map(|member| (renumbered(member.shown), member.reward)).collect();
                group(&names, &members)
            })
            .collect();
        let mut credit = observed(&groups);
        credit.drop_entry(&entry(gone));
        credit.drop_entry(&entry("never seen"));
        near(&credit.estimates(), &observed(&without).estimates(), 1e-9);
        let degrees = |credit: &Credit| credit.estimates().values().next().unwrap().residual_degrees;
        assert_eq!(degrees(&credit), degrees(&observed(&without)));
    }
}

#[test]
fn a_new_trial_starts_without_evidence() {
    let groups = random_groups(40, 3);
    let mut credit = observed(&groups);
    credit.reset_entry(&entry("c"));
    let known = credit.estimates();
    let fresh = &known[&entry("c")];
    assert_eq!((fresh.groups, fresh.effect, fresh.decidable), (0, 0.0, false));
    assert!(fresh.standard_error >= 1.0 && fresh.interval.0 < -1.0 && fresh.interval.1.is_finite());
    let mut dropped = observed(&groups);
    dropped.drop_entry(&entry("c"));
    // Both continue identically.
    for group in &random_groups(40, 4) {
        credit.observe(group);
        dropped.observe(group);
    }
    near(&credit.estimates(), &dropped.estimates(), 1e-9);
    assert!(credit.estimates()[&entry("c")].groups < 40);
}

#[test]
fn settled_groups_still_count() {
    let groups = random_groups(WINDOW_GROUPS * 2, 5);
    let credit = observed(&groups);
    assert!(credit.window.len() <= WINDOW_GROUPS && credit.settled.groups > 0);
    // All rows at the latest effects, as with an unbounded window.
    let mut all = credit.clone();
    all.settled = Default::default();
    NAMES.iter().enumerate().for_each(|(at, _)| all.settled.squares.insert(at));
    let kept = observed(&groups[..WINDOW_GROUPS]).window.into_iter();
    all.window = kept.chain(observed(&groups[WINDOW_GROUPS..]).window).collect();
    near(&credit.estimates(), &all.estimates(), 1e-4);
    let (known, exact) = (credit.estimates(), all.estimates());
    for (entry, known) in &known {
        let exact = &exact[entry];
        assert_eq!((known.effect, known.residual_degrees), (exact.effect, exact.residual_degrees), "{entry}");
        let ratio = known.standard_error / exact.standard_error;
        assert!((ratio - 1.0).abs() < 1e-3, "{entry}: {ratio}");
    }
}

#[test]
fn a_deserialised_credit_continues_byte_for_byte() {
    let groups = random_groups(WINDOW_GROUPS + 100, 6);
    let (before, after) = groups.split_at(WINDOW_GROUPS + 50);
    let mut credit = observed(before);
    credit.drop_entry(&entry("b"));
    let written = serde_json::to_value(&credit).unwrap();
    let sizes = [&written["columns"], &written["gram"], &written["settled"]["squares"]];
    assert_eq!(sizes.map(|part| part.as_array().unwrap().len()), [4; 3], "no part holds the dropped entry");
    let text = serde_json::to_string(&credit).unwrap();
    let mut read: Credit = serde_json::from_str(&text).unwrap();
    assert_eq!(read, credit);
    for group in after {
        credit.observe(group);
        read.observe(group);
    }
    assert_eq!(serde_json::to_string(&read).unwrap(), serde_json::to_string(&credit).unwrap());
    assert_eq!(read.estimates(), credit.estimates());
}

#[test]
fn the_order_of_drawn_entries_does_not_matter() {
    let forward = group(&["a", "b", "c"], &[(0b011, 0.3), (0b110, 0.7), (0b101, 0.1)]);
    let backward = group(&["c", "b", "a"], &[(0b110, 0.3), (0b011, 0.7), (0b101, 0.1)]);
    near(&observed([&forward]).estimates(), &observed([&backward]).estimates(), 1e-12);
}

#[test]
fn an_inconsistent_document_does_not_panic() {
    let credit = observed(&random_groups(20, 8));
    let mut document: serde_json::Value = serde_json::to_value(&credit).unwrap();
    document["gram"] = serde_json::json!([[1.0]]);
    document["columns"].as_array_mut().unwrap().pop();
    let mut odd: Credit = serde_json::from_value(document).unwrap();
    random_groups(20, 9).iter().for_each(|group| odd.observe(group));
    odd.drop_entry(&entry("c"));
    odd.estimates();
}
