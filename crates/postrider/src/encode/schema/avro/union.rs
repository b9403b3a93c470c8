//! Which branch of a union a value belongs to.

use super::super::json::{Kind, Value};
use super::super::misfit::Misfit;
use super::super::number::Fit;
use super::compiled::{TypeId, Union};
use super::write::{Writer, put_long};

impl Writer<'_, '_> {
    /// Appends the number of a branch and the value. The branch that explains most fields wins, then the tighter one, then the
    /// first.
    pub(super) fn union(&mut self, id: TypeId, union: &Union, value: Value<'_>) -> Fit<()> {
        let is_null = value.kind() == Kind::Null;
        if let Some(number) = if is_null { union.null } else { union.only } {
            let Some(branch) = union.branches.get(number) else { return Ok(()) };
            put_branch(number, self.out);
            return self.value(*branch, value);
        }
        if is_null {
            return Err(Misfit::new(union.words.clone(), "null"));
        }
        let start = self.mark();
        let mut best: Option<(usize, Score)> = None;
        let mut is_tie = false;
        for (number, branch) in
            union.branches.iter().enumerate().filter(|(number, _)| Some(*number) != union.null)
        {
            let fits = self.value(*branch, value).is_ok();
            let score = Score {
                explained: self.explained - start.explained,
                tightness: usize::MAX - (self.looseness - start.looseness),
            };
            self.reset(&start);
            if self.is_exhausted() {
                return Err(Misfit::new(union.words.clone(), "a payload that is too large for its schema"));
            }
            match best {
                _ if !fits => {}
                Some((_, known)) if known > score => {}
                Some((_, known)) if known == score => is_tie = true,
                _ => (best, is_tie) = (Some((number, score)), false),
            }
        }
        let Some((number, _)) = best else {
            return Err(Misfit::new(union.words.clone(), format!("{} that fits none", value.kind().words())));
        };
        if is_tie && self.rules.refuses_ties {
            return Err(Misfit::new(union.words.clone(), "a value that fits several equally well"));
        }
        put_branch(number, self.out);
        let branch = union.branches.get(number).copied().unwrap_or_default();
        self.value(branch, value)?;
        if is_tie {
            self.ties.push(id);
        }
        Ok(())
    }
}

/// How well a branch fits; the greater the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    explained: usize,
    tightness: usize,
}

fn put_branch(number: usize, out: &mut Vec<u8>) {
    put_long(i64::try_from(number).unwrap_or(i64::MAX), out);
}
