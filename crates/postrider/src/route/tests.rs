use super::*;
use crate::Headers;

fn order() -> Event {
    Event::new("order.placed", "{}").with_aggregate("Order", "42").with_header("customer", "ann")
}

fn destination(route: Route) -> String {
    match route {
        Route::To { name, .. } => name.to_string(),
        other => format!("{other:?}"),
    }
}

fn delivery(route: Route) -> Delivery {
    match route {
        Route::To { delivery: Some(delivery), .. } => (*delivery).clone(),
        other => panic!("no delivery: {other:?}"),
    }
}

#[test]
fn without_rules_the_topic_of_the_event_goes_before_the_default() {
    assert_eq!(Router::to("orders").route(&order()), Route::to("orders"));
    assert_eq!(Router::to("orders").route(&order().with_topic("vip")), Route::to("vip"));
    assert_eq!(Router::by_topic().route(&order()), Route::Unrouted);
}

#[test]
fn a_type_outside_the_list_is_filtered_even_with_a_topic_and_a_rule() {
    let router = Router::by_topic().only(["order.p*", "user.born"]);
    assert_eq!(router.route(&Event::new("order.lost", "{}").with_topic("t")), Route::Filtered);
    assert_eq!(router.route(&Event::new("order.paid", "{}").with_topic("t")), Route::to("t"));
    let router = router.first_match([Rule::to("all")]).unwrap();
    assert_eq!(router.route(&Event::new("order.lost", "{}")), Route::Filtered);
    let nothing = Router::to("orders").only(Vec::<String>::new());
    assert_eq!(nothing.route(&order()), Route::Filtered);
}

#[test]
fn the_first_rule_that_matches_decides_and_not_the_topic() {
    let router = Router::to("default")
        .first_match([
            Rule::to("vip").types(["order.*"]).aggregates(["Vip*"]),
            Rule::to("shop.{aggregate_type}").types(["order.placed", "order.paid"]),
            Rule::new().types(["user.*"]),
        ])
        .unwrap();
    assert_eq!(destination(router.route(&order().with_topic("t"))), "shop.Order");
    assert_eq!(destination(router.route(&order().with_aggregate("VipOrder", "1"))), "vip");
    let user = Event::new("user.born", "{}");
    assert_eq!(destination(router.route(&user)), "default");
    assert_eq!(destination(router.route(&user.with_topic("t"))), "t");
    assert_eq!(router.route(&Event::new("stock.low", "{}").with_topic("t")), Route::Unrouted);
}

#[test]
fn an_event_that_lacks_a_field_of_the_rule_is_tried_with_the_next_rule() {
    let rules = [
        Rule::to("a.{header.region}"),
        Rule::to("b").key("{header.region}"),
        Rule::to("c").header("region", "{header.region}"),
        Rule::new(),
        Rule::to("e").header("region", "{header.region|}").aggregates(["*"]),
    ];
    let router = Router::by_topic().first_match(rules).unwrap();
    assert_eq!(destination(router.route(&order())), "e");
    assert_eq!(destination(router.route(&order().with_header("region", "eu"))), "a.eu");
    assert_eq!(router.route(&Event::new("no.aggregate", "{}")), Route::Unrouted);
}

#[test]
fn a_rule_gives_key_and_headers() {
    let rule = Rule::to("orders").key("{header.customer}").header("source", "{type}@{{shop}}");
    let delivery = delivery(Router::by_topic().first_match([rule]).unwrap().route(&order()));
    assert_eq!(delivery.key.as_deref(), Some("ann"));
    assert_eq!(delivery.copies.len(), 1);
    assert_eq!(delivery.copies[0].headers, Headers::from_iter([("source", "order.placed@{shop}")]));
}

#[test]
fn events_with_the_same_fixed_destination_share_its_name() {
    let rules = [Rule::to("fixed").types(["order.*"]), Rule::to("{type}").key("{key|none}")];
    let router = Router::by_topic().first_match(rules).unwrap();
    let shared = |event: &Event| match (router.route(event), router.route(event)) {
        (Route::To { name: a, delivery: None }, Route::To { name: b, delivery: None }) => Arc::ptr_eq(&a, &b),
        other => panic!("{other:?}"),
    };
    assert!(shared(&order()) && shared(&Event::new("user.born", "{}").with_key("k")));
}

#[test]
fn every_match_sends_once_to_each_destination() {
    let rules = [
        Rule::to("all").header("by", "1"),
        Rule::to("orders").types(["order.*"]),
        Rule::to("users").types(["user.*"]),
        Rule::to("all").header("by", "4"),
    ];
    let router = Router::by_topic().every_match(rules).unwrap();
    let route = router.route(&order());
    assert_eq!(destination(route.clone()), "all + orders");
    let copies = delivery(route).copies;
    let sent: Vec<_> = copies.iter().map(|p| (&*p.destination, p.headers.get("by"))).collect();
    assert_eq!(sent, [("all", Some("1")), ("orders", None)]);
    let only_one = Router::by_topic().every_match([Rule::to("all"), Rule::to("b").types(["x"])]).unwrap();
    assert_eq!(only_one.route(&order()), Route::to("all"));
}

#[test]
fn an_event_without_a_destination_is_skipped_only_if_configured() {
    let router = Router::by_topic().first_match([Rule::to("orders").types(["order.*"])]).unwrap();
    let user = Event::new("user.born", "{}");
    assert_eq!(router.route(&user), Route::Unrouted);
    assert_eq!(router.clone().unrouted(Unrouted::Skip).route(&user), Route::Skipped);
    assert_eq!(router.unrouted(Unrouted::Park).route(&user), Route::Unrouted);
    assert_eq!(Router::by_topic().unrouted(Unrouted::Skip).route(&user), Route::Skipped);
}

#[test]
fn a_rule_that_cannot_work_is_refused_by_its_number() {
    let first = |rule: Rule| Router::by_topic().first_match([Rule::to("ok"), rule]);
    let every = |rules: Vec<Rule>| Router::by_topic().every_match(rules);
    let rule = || Rule::to("a");
    for (router, parts) in [
        (first(Rule::to("{typ}")), ["PR-0412", "rule 2: destination: template \"{typ}\", column 1"]),
        (
            first(Rule::to("")),
            ["PR-0413", "rule 2: destination: the template \"\" can produce an empty text"],
        ),
        (first(rule().key("{key")), ["PR-0413", "rule 2: key: template \"{key\", column 1"]),
        (first(rule().key("{topic|}")), ["PR-0413", "rule 2: key: the template"]),
        (first(rule().header("x", "}")), ["PR-0413", "rule 2: header \"x\": template"]),
        (first(rule().header("a b", "")), ["PR-0104", "rule 2: the header name \"a b\" is not a token"]),
        (first(rule().header("Postrider-id", "")), ["PR-0113", "rule 2: the header \"Postrider-id\""]),
        (first(rule().header("Content-Type", "a")), ["PR-0414", "rule 2: a rule cannot set"]),
        (first(rule().types(Vec::<String>::new())), ["PR-0414", "rule 2: the list of types is empty"]),
        (first(rule().aggregates(Vec::<String>::new())), ["PR-0414", "the list of aggregates is empty"]),
        (every(vec![rule(), rule().key("{id}")]), ["PR-0414", "rule 2 has a different key than rule 1"]),
        (every(vec![rule(); 17]), ["PR-0414", "more than 16 rules"]),
        (Router::by_topic().first_match(vec![rule(); 1_001]), ["PR-0414", "more than 1000 rules"]),
    ] {
        let error = router.unwrap_err().report();
        parts.iter().for_each(|part| assert!(error.contains(part), "{part:?} is not in\n{error}"));
    }
}

#[test]
fn a_router_reports_whether_it_has_several_destinations() {
    let several = |rules: Vec<Rule>| Router::to("d").first_match(rules).unwrap().has_several_destinations();
    assert!(!several(vec![]));
    assert!(!several(vec![Rule::to("a"), Rule::to("a").key("{id}")]));
    assert!(several(vec![Rule::to("a"), Rule::to("b")]));
    assert!(several(vec![Rule::to("{type}")]));
    assert!(several(vec![Rule::new()]));
}

#[test]
fn values_are_escaped_only_where_the_sink_takes_urls() {
    let event = || order().with_header("path", "../admin?x=1").with_topic("https://other.example/");
    let router = || Router::by_topic().first_match([Rule::to("https://h.example/{header.path}")]).unwrap();
    assert_eq!(destination(router().route(&event())), "https://h.example/../admin?x=1");
    let names = router().for_destinations(Destinations::Names).unwrap();
    assert_eq!(destination(names.route(&event())), "https://h.example/../admin?x=1");
    let urls = router().for_destinations(Destinations::Urls { hosts_from_events: false }).unwrap();
    let route = urls.route(&event());
    assert_eq!(destination(route.clone()), "https://h.example/..%2Fadmin%3Fx%3D1");
    assert_eq!(delivery(route).copies[0].origin.as_deref(), Some("https://h.example"));
}

#[test]
fn a_value_of_an_event_is_one_level_of_a_topic() {
    let router = |rule: Rule| Router::by_topic().first_match([rule]).unwrap();
    let event = order().with_header("path", "a/../#+$SYS%\u{7f}ö").with_topic("own/topic");
    let topics = |rule| router(rule).for_destinations(Destinations::Topics);
    let routed = destination(topics(Rule::to("shop/{header.path}/x")).unwrap().route(&event));
    assert_eq!(routed, "shop/a%2F..%2F%23%2B%24SYS%25%7Fö/x");
    assert_eq!(destination(topics(Rule::to("{topic}")).unwrap().route(&event)), "own/topic");
    assert_eq!(destination(topics(Rule::new()).unwrap().route(&event)), "own/topic");
    for wildcard in ["shop/+/x", "shop/#", "shop/{topic|+}/x", "{topic|a/#}"] {
        let error = topics(Rule::to(wildcard)).unwrap_err();
        assert!(error.message().starts_with("rule 1: the destination has a wildcard"), "{error}");
    }
}

#[test]
fn an_event_chooses_the_host_only_where_the_sink_allows_it() {
    let urls = |hosts_from_events| Destinations::Urls { hosts_from_events };
    let fit = |rules: Vec<Rule>, destinations| {
        Router::to("hook").first_match(rules).unwrap().for_destinations(destinations)
    };
    for rules in [
        vec![],
        vec![Rule::new()],
        vec![Rule::to("https://h.example/"), Rule::to("https://{header.tenant}/")],
        vec![Rule::to("{topic}")],
    ] {
        assert_eq!(fit(rules.clone(), urls(false)).unwrap_err().code(), Code::DestinationHost);
        fit(rules, urls(true)).unwrap();
    }
    let error = fit(vec![Rule::to("https://h.example/"), Rule::to("orders")], urls(true)).unwrap_err();
    assert!(error.report().contains("rule 2: the destination is not the URL"), "{error}");
    // A URL chosen by the event has no origin, so the sink checks it.
    let router = fit(vec![Rule::new()], urls(true)).unwrap();
    let route = router.route(&order().with_topic("https://h.example/"));
    assert_eq!(route, Route::to("https://h.example/"));
}

#[test]
fn a_rule_whose_destination_is_never_used_is_refused() {
    let fit =
        |rules: Vec<Rule>| Router::to("d").first_match(rules).unwrap().for_destinations(Destinations::Fixed);
    let error = fit(vec![Rule::new(), Rule::to("orders")]).unwrap_err();
    assert_eq!(error.code(), Code::DestinationUnused);
    assert!(error.message().starts_with("rule 2: "), "{error}");
    fit(vec![Rule::new().key("{id}")]).unwrap();
    fit(vec![]).unwrap();
}
