//! Tasks with a name, which stays known if one of them panics.

use std::collections::HashMap;

use postrider::{Code, Error, Result};
use tokio::task::{Id, JoinSet};

/// Tasks, each for one outbox.
pub struct NamedTasks<T> {
    tasks: JoinSet<Result<T>>,
    names: HashMap<Id, String>,
}

impl<T: Send + 'static> NamedTasks<T> {
    /// Starts a task for this outbox.
    pub fn start(&mut self, name: &str, task: impl Future<Output = Result<T>> + Send + 'static) {
        let started = self.tasks.spawn(task);
        self.names.insert(started.id(), name.to_owned());
    }

    /// How many tasks have not ended.
    pub fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Waits for the end of a task. Never returns if there is none. Dropping the future loses nothing.
    ///
    /// # Errors
    /// A panic is an error of the outbox.
    pub async fn next(&mut self) -> (String, Result<T>) {
        let (id, ended) = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ended))) => (id, ended),
            Some(Err(error)) => {
                let name = self.names.get(&error.id()).map_or("", String::as_str);
                let what = format!("outbox {name:?} could not be opened, because Postrider panicked");
                let panicked =
                    Error::new(Code::RelayStopped, what).with_effect("its events stay in the outbox");
                (error.id(), Err(panicked.with_source(error)))
            }
            None => return std::future::pending().await,
        };
        (self.names.remove(&id).unwrap_or_default(), ended)
    }
}

impl<T: 'static> Default for NamedTasks<T> {
    fn default() -> Self {
        Self { tasks: JoinSet::new(), names: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_its_own_outbox_and_the_others_go_on() {
        let mut tasks = NamedTasks::default();
        tasks.start("shop:1.0", async { panic!("a bug") });
        tasks.start("shop:1.1", async { Ok(7) });
        let mut ended = [tasks.next().await, tasks.next().await];
        ended.sort_by(|(one, _), (other, _)| one.cmp(other));
        let [(panicked, error), (healthy, answer)] = ended;
        assert_eq!((panicked.as_str(), healthy.as_str(), answer.unwrap()), ("shop:1.0", "shop:1.1", 7));
        let error = error.unwrap_err();
        assert_eq!(error.code(), Code::RelayStopped);
        let line = error.one_line();
        assert!(line.contains("shop:1.0") && line.contains("a bug"), "{line}");
        assert_eq!((tasks.running(), tasks.names.len()), (0, 0));
    }
}
