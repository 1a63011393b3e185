//! Sets of nodes that reach each other.

use std::collections::{BTreeMap, BTreeSet};

/// Returns all circles of more than one node.
pub(crate) fn all<T: Ord + Clone>(arrows: impl Iterator<Item = (T, T)>) -> Vec<Vec<T>> {
    let mut after = BTreeMap::<T, BTreeSet<T>>::new();
    for (from, to) in arrows {
        after.entry(to.clone()).or_default();
        after.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<&T, BTreeSet<&T>> = after.keys().map(|node| (node, reach(&after, node))).collect();
    let mut circles = BTreeSet::new();
    for (&node, others) in &reached {
        let circle: Vec<T> = others
            .iter()
            .filter(|&&other| reached[other].contains(node))
            .map(|&other| other.clone())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// Returns the largest circle.
pub(crate) fn largest<T: Ord + Clone>(arrows: impl Iterator<Item = (T, T)>) -> Vec<T> {
    all(arrows).into_iter().max_by_key(Vec::len).unwrap_or_default()
}

fn reach<'a, T: Ord>(after: &'a BTreeMap<T, BTreeSet<T>>, start: &'a T) -> BTreeSet<&'a T> {
    let (mut seen, mut to_do) = (BTreeSet::new(), vec![start]);
    while let Some(node) = to_do.pop() {
        to_do.extend(after[node].iter().filter(|other| seen.insert(*other)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_apart() {
        let arrows = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 4), (6, 1)];
        assert_eq!(all(arrows.into_iter()), [vec![1, 2, 3], vec![4, 5]]);
        assert_eq!(largest(arrows.into_iter()), [1, 2, 3]);
        assert_eq!(largest([(1, 2), (2, 3)].into_iter()), []);
    }
}
