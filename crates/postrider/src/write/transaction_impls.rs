//! What every writer does around its INSERT: return an earlier error, return at once if there are no events, convert
//! the answer.

/// Makes borrows of a driver's connection or transaction a [`Transaction`](super::Transaction) that answers with a
/// future. The function takes the borrow and a batch that is not empty, and returns what was written.
macro_rules! answers_later {
    ($lifetime:lifetime, $insert:path: $($borrow:ty),+ $(,)?) => { $(
        impl<$lifetime> $crate::write::Transaction for $borrow {
            type Out<T: Send + 'static> = $crate::BoxFuture<$lifetime, $crate::Result<T>>;

            fn insert<T: Send + 'static>(
                self,
                batch: $crate::Result<$crate::write::Batch>,
                answer: fn(Vec<$crate::write::Written>) -> $crate::Result<T>,
            ) -> Self::Out<T> {
                Box::pin(async move {
                    let batch = batch?;
                    if batch.events().is_empty() {
                        return answer(Vec::new());
                    }
                    answer($insert(self, &batch).await?)
                })
            }
        }
    )+ };
}

/// The same for a blocking driver, which returns the result itself.
macro_rules! answers_at_once {
    ($insert:path: $($borrow:ty),+ $(,)?) => { $(
        impl $crate::write::Transaction for $borrow {
            type Out<T: Send + 'static> = $crate::Result<T>;

            fn insert<T: Send + 'static>(
                self,
                batch: $crate::Result<$crate::write::Batch>,
                answer: fn(Vec<$crate::write::Written>) -> $crate::Result<T>,
            ) -> $crate::Result<T> {
                let batch = batch?;
                if batch.events().is_empty() {
                    return answer(Vec::new());
                }
                answer($insert(self, &batch)?)
            }
        }
    )+ };
}
