//! The router of a subscription.

use postrider::Result;
use postrider::route::{Router, Rule};

use super::{RuleMatch, RuleSettings, SubscriptionSettings};

impl SubscriptionSettings {
    /// The router of this subscription. Without rules, events go to their topic, otherwise to the subscription's name.
    ///
    /// # Errors
    /// The invalid rule and the reason.
    pub fn router(&self, name: &str) -> Result<Router> {
        let mut router = Router::to(name).unrouted(self.unrouted);
        if let Some(types) = &self.only {
            router = router.only(types);
        }
        let rules = self.rules.iter().map(RuleSettings::rule);
        match self.rule_match {
            RuleMatch::First => router.first_match(rules),
            RuleMatch::All => router.every_match(rules),
        }
    }
}

impl RuleSettings {
    fn rule(&self) -> Rule {
        let mut rule = self.destination.as_ref().map_or_else(Rule::new, Rule::to);
        if let Some(types) = &self.types {
            rule = rule.types(types);
        }
        if let Some(aggregates) = &self.aggregates {
            rule = rule.aggregates(aggregates);
        }
        if let Some(key) = &self.key {
            rule = rule.key(key);
        }
        self.headers.iter().fold(rule, |rule, (name, template)| rule.header(name, template))
    }
}
