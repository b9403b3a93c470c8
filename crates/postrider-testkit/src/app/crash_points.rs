//! Points of a handler at which a test lets it die.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use postrider::handler::Handlers;

/// Points at which a handler can be ended, as if its process had died there. Clones share their state.
///
/// [`CrashTest`](crate::CrashTest) uses it. A handler marks its points with
/// [`Context::crash_point`](postrider::handler::Context::crash_point), which does nothing outside of such a test; a fake of
/// the test, such as one for a mail server, calls [`reach`](Self::reach). The points `before the call` and `after the call`
/// are added to each function.
#[derive(Debug, Clone, Default)]
pub struct CrashPoints(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// How often each point was reached, in the order of the first time.
    reached: Vec<(String, u32)>,
    /// The point to crash at, and which time.
    armed: Option<(String, u32)>,
    crashed: bool,
}

/// The payload of the unwinding that ends a handler.
struct Crashed;

impl CrashPoints {
    /// No point is known yet, and none crashes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same handlers, whose crash points are these.
    #[must_use]
    pub fn watch(&self, handlers: Handlers) -> Handlers {
        let points = self.clone();
        handlers.crash_hook(Arc::new(move |name| points.reach(name)))
    }

    /// Marks a point. If the test crashes here, the stack is unwound: futures and transactions are dropped, and nothing
    /// after this point runs. All later points of the dead process unwind too.
    pub fn reach(&self, name: &str) {
        if self.dies_at(name) {
            // Not a panic: no message is printed.
            std::panic::resume_unwind(Box::new(Crashed));
        }
    }

    fn dies_at(&self, name: &str) -> bool {
        self.with(|state| {
            if state.crashed {
                return true;
            }
            let times = match state.reached.iter_mut().find(|(known, _)| known == name) {
                Some((_, times)) => {
                    *times += 1;
                    *times
                }
                None => {
                    state.reached.push((name.to_owned(), 1));
                    1
                }
            };
            state.crashed = state.armed.as_ref().is_some_and(|(point, at)| point == name && *at == times);
            state.crashed
        })
    }

    /// Crashes when this point is reached for the given time, counted from 1, and counts from the beginning.
    pub fn crash_at(&self, name: &str, time: u32) {
        self.with(|state| {
            *state = State { armed: Some((name.to_owned(), time)), ..State::default() };
        });
    }

    /// Whether a point has crashed the handler since [`crash_at`](Self::crash_at).
    pub fn has_crashed(&self) -> bool {
        self.with(|state| state.crashed)
    }

    /// The process is started again: no point crashes any more.
    pub fn restart(&self) {
        self.with(|state| (state.crashed, state.armed) = (false, None));
    }

    /// How often each point was reached.
    pub fn reached(&self) -> HashMap<String, u32> {
        self.with(|state| state.reached.iter().cloned().collect())
    }

    /// Every point and time, in the order of the first time.
    #[cfg(feature = "sqlite")]
    pub(super) fn all(&self) -> Vec<(String, u32)> {
        self.with(|state| {
            let each =
                |(name, times): &(String, u32)| (1..=*times).map(|time| (name.clone(), time)).collect();
            state.reached.iter().flat_map(|point| -> Vec<(String, u32)> { each(point) }).collect()
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
