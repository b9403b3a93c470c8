//! The code around the INSERT of every driver: return an earlier error, return immediately if there are no events,
//! convert the answer.

/// Implements [`Transaction`](super::Transaction) for borrows of an async driver's connection or transaction. The first
/// function takes the borrow and a batch that is not empty, and returns what was written; the second takes the borrow and a
/// step, and returns its number of rows.
macro_rules! impl_async_transaction {
    ($lifetime:lifetime, $insert:path, $step:path: $($borrow:ty),+ $(,)?) => { $(
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

            fn step<T: Send + 'static>(
                self,
                step: $crate::Result<$crate::write::Step>,
                answer: fn(u64) -> $crate::Result<T>,
            ) -> Self::Out<T> {
                Box::pin(async move { answer($step(self, &step?).await?) })
            }
        }

        impl<$lifetime> $crate::write::AsyncTransaction for $borrow {
            fn step_on(
                &mut self,
                step: $crate::Result<$crate::write::Step>,
            ) -> $crate::BoxFuture<'_, $crate::Result<u64>> {
                let shorter = $crate::write::transaction::Reborrow::reborrow(self);
                Box::pin(async move { $step(shorter, &step?).await })
            }
        }
    )+ };
}

/// The same for a blocking driver, whose result is not a future.
macro_rules! impl_blocking_transaction {
    ($insert:path, $step:path: $($borrow:ty),+ $(,)?) => { $(
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

            fn step<T: Send + 'static>(
                self,
                step: $crate::Result<$crate::write::Step>,
                answer: fn(u64) -> $crate::Result<T>,
            ) -> $crate::Result<T> {
                answer($step(self, &step?)?)
            }
        }

        impl $crate::write::BlockingTransaction for $borrow {
            fn step_on(self, step: $crate::Result<$crate::write::Step>) -> $crate::Result<u64> {
                $step(self, &step?)
            }
        }
    )+ };
}
