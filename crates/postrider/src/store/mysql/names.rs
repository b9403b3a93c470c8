//! Stable names for transactions, from one list of writers to the next.

use std::collections::{BTreeMap, BTreeSet};

use super::locks::Holders;
use crate::store::writer_watch::Writers;

/// Assigns names that transactions keep from one list to the next.
///
/// The server's identifiers are not stable: MySQL replaces a lock when its transaction is prepared, MariaDB removes it
/// when the connection of a prepared transaction ends, and the plugin reports no transactions at all. In doubt, a
/// transaction is therefore listed under all names that it may have had:
///
/// - A lock that was in the previous list counts as the same transaction.
/// - A new lock may be the successor of a lock of the same owner in the previous list: while a transaction is being
///   prepared, both may exist. A transaction is prepared once, so this goes back only one step.
/// - A newly prepared transaction may be any transaction of the previous list.
#[derive(Debug, Default)]
pub(super) struct WriterNames {
    /// The number of names assigned so far.
    numbered: u64,
    /// The locks of the last list, by name.
    present: BTreeMap<(String, String), String>,
    /// The other names that a transaction may have had, by name.
    also: BTreeMap<String, BTreeSet<String>>,
}

impl WriterNames {
    /// The names of all transactions that may still commit, with the tokens of idle ones. A name that only may be right
    /// has no token.
    pub(super) fn of(&mut self, holders: Holders) -> Writers {
        let before = std::mem::take(&mut self.present);
        let of_owner = |owner: &str| -> BTreeSet<String> {
            before.iter().filter(|((of, _), _)| of == owner).map(|(_, name)| name.clone()).collect()
        };
        let mut names = Writers::new();
        for (lock, token) in &holders.locks {
            let name = match before.get(lock) {
                Some(name) => name.clone(),
                None => {
                    self.numbered += 1;
                    let name = format!("{} {}", self.numbered, lock.0);
                    self.also.insert(name.clone(), of_owner(&lock.0));
                    name
                }
            };
            names.insert(name.clone(), token.clone());
            self.present.insert(lock.clone(), name);
        }
        for (prepared, token) in holders.prepared {
            self.also.entry(prepared.clone()).or_insert_with(|| before.values().cloned().collect());
            names.insert(prepared, token);
        }
        self.also.retain(|name, _| names.contains_key(name));
        for name in self.also.values().flatten() {
            names.entry(name.clone()).or_insert(None);
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(locks: &[(&str, &str)], prepared: &[&str]) -> Holders {
        Holders {
            locks: locks
                .iter()
                .map(|(owner, lock)| (((*owner).to_owned(), (*lock).to_owned()), None))
                .collect(),
            prepared: prepared.iter().map(|name| ((*name).to_owned(), None)).collect(),
        }
    }

    /// Whether the writers listed first may still commit, after each later list.
    fn awaited(lists: &[Holders]) -> Vec<bool> {
        let mut names = WriterNames::default();
        let mut lists = lists.iter().cloned();
        let mut watch = names.of(lists.next().unwrap_or_default());
        lists
            .map(|list| {
                let now = names.of(list);
                watch.retain(|name, _| now.contains_key(name));
                !watch.is_empty()
            })
            .collect()
    }

    #[test]
    fn a_writer_is_awaited_until_its_lock_is_gone() {
        let open = holders(&[("7", "1/a")], &[]);
        assert_eq!(awaited(&[open.clone(), open, holders(&[], &[])]), [true, false]);
    }

    #[test]
    fn later_transactions_of_a_busy_connection_are_not_awaited() {
        let lists: Vec<_> = ["1/a", "2/a", "3/a"].iter().map(|lock| holders(&[("7", lock)], &[])).collect();
        assert_eq!(awaited(&lists), [true, false]);
    }

    #[test]
    fn a_lock_that_moved_when_its_transaction_was_prepared_is_still_awaited() {
        let moved = holders(&[("7", "2/b")], &[]);
        let and_more = holders(&[("7", "2/b"), ("7", "9/c")], &[]);
        assert_eq!(
            awaited(&[holders(&[("7", "1/a")], &[]), moved, and_more, holders(&[("7", "9/c")], &[])]),
            [true, true, false]
        );
    }

    #[test]
    fn a_transaction_that_is_listed_while_it_is_prepared_is_still_awaited() {
        let both = holders(&[("7", "1/a"), ("7", "2/b")], &[]);
        let moved = holders(&[("7", "2/b")], &[]);
        let lists = [holders(&[("7", "1/a")], &[]), both, moved, holders(&[], &[])];
        assert_eq!(awaited(&lists), [true, true, false]);
    }

    #[test]
    fn a_prepared_transaction_without_a_lock_may_be_any_listed_writer() {
        let open = holders(&[("7", ""), ("8", "")], &[]);
        let prepared = holders(&[("8", "")], &["xa 1"]);
        let left = holders(&[], &["xa 1"]);
        assert_eq!(awaited(&[open, prepared, left, holders(&[], &[])]), [true, true, false]);
    }

    #[test]
    fn a_transaction_prepared_earlier_does_not_delay_later_ones() {
        let old = ["xa 1"];
        let mut names = WriterNames::default();
        names.of(holders(&[], &old));
        let mut watch = names.of(holders(&[("7", "1/a")], &old));
        watch.retain(|name, _| !name.starts_with("xa"));
        let now = names.of(holders(&[], &old));
        watch.retain(|name, _| now.contains_key(name));
        assert!(watch.is_empty(), "{watch:?}");
    }
}
