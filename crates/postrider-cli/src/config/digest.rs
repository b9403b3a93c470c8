//! Whether two relays have the same settings for a subscription, without what the settings are.

use std::fmt::Debug;

use super::settings::{Settings, SubscriptionSettings};

/// The parts of a digest, in its order.
const PARTS: [&str; 3] = ["limits", "routing", "sink"];

/// Hexadecimal digits of a part.
const DIGITS: usize = 6;

/// Identifies limits, routing and sink of a subscription; empty if it is not configured. It contains no secret: settings
/// are printed with their secrets masked, so it does not change with a secret.
pub fn digest(settings: &Settings, subscription: &str) -> String {
    let Some(of) = settings.subscriptions.get(subscription) else { return String::new() };
    let SubscriptionSettings { policy, only, rule_match, unrouted, rules, aliases, sink: name, .. } = of;
    let sink = settings.sinks.get(name);
    let parts = [part(policy), part(&(only, rule_match, unrouted, rules, aliases)), part(&(name, sink))];
    parts.join("-")
}

/// In which parts two digests differ; none if one of them is not known.
pub fn differences(one: &str, other: &str) -> Vec<&'static str> {
    if one.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let pairs = one.split('-').zip(other.split('-')).zip(PARTS);
    pairs.filter(|((one, other), _)| one != other).map(|(_, part)| part).collect()
}

/// FNV-1a of the settings as they are printed: the same in every process of one version.
fn part(settings: &impl Debug) -> String {
    let hash = format!("{settings:?}").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}").chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_that_differ_are_named() {
        assert_eq!(differences("a-b-c", "a-b-c"), [""; 0]);
        assert_eq!(differences("a-b-c", "a-x-y"), ["routing", "sink"]);
        assert_eq!(differences("", "a-b-c"), [""; 0], "a relay of another program does not say");
    }
}
