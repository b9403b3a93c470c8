use super::*;

fn event() -> Event {
    Event::new("order.placed", "{}")
        .with_id(uuid::Uuid::from_u128(7))
        .with_aggregate("Order", "42")
        .with_namespace("shop")
        .with_producer("node-3")
        .with_header("tenant", "blue")
        .with_header("empty", "")
}

fn rendered(template: &str) -> Option<String> {
    let mut text = String::new();
    Template::parse(template).unwrap().render(&event(), &mut text).then_some(text)
}

#[test]
fn a_template_renders_the_fields_of_the_event() {
    for (template, text) in [
        ("", Some("")),
        ("orders", Some("orders")),
        ("{type}", Some("order.placed")),
        ("é{aggregate_type}/{aggregate_id}", Some("éOrder/42")),
        ("{key}", Some("42")),
        ("{namespace}.{producer}", Some("shop.node-3")),
        ("{id}", Some("00000000-0000-0000-0000-000000000007")),
        ("{header.tenant}", Some("blue")),
        ("{{{header.tenant}}}", Some("{blue}")),
        ("{{}}", Some("{}")),
        ("{topic}", None),
        ("{topic|orders}", Some("orders")),
        ("{type|other}", Some("order.placed")),
        ("a{topic|}b", Some("ab")),
        ("{topic|a|b}", Some("a|b")),
        ("{header.empty}", None),
        ("{header.empty|none}", Some("none")),
        ("{header.Tenant}", None),
        ("to-{header.missing}", None),
    ] {
        assert_eq!(rendered(template).as_deref(), text, "{template}");
    }
}

#[test]
fn a_syntax_error_in_a_template_names_the_column_and_the_fix() {
    for (template, code, what, hint) in [
        ("orders.{type", "PR-0413", "column 8: the brace is not closed", "close it"),
        ("é{", "PR-0413", "column 2: the brace is not closed", "{{"),
        ("{a{type}", "PR-0413", "column 1: the brace is not closed", "close it"),
        ("a}b", "PR-0413", "column 2: the closing brace has no opening brace", "}}"),
        ("{type}}", "PR-0413", "column 7: the closing brace has no opening brace", "}}"),
        ("a\nb", "PR-0413", "column 2: there is a control character", "remove"),
        ("{topic|\t}", "PR-0413", "column 8: there is a control character", "remove"),
        ("{}", "PR-0412", "column 1: there is no field \"\"", "fields are type,"),
        ("x{typ}", "PR-0412", "column 2: there is no field \"typ\"", "did you mean {type}?"),
        ("{aggregate.id}", "PR-0412", "no field \"aggregate.id\"", "did you mean {aggregate_id}?"),
        ("{ type }", "PR-0412", "no field \" type \"", "did you mean {type}?"),
        ("{header.}", "PR-0412", "no field \"header.\"", "did you mean {header.NAME}?"),
        ("{qqq}", "PR-0412", "no field \"qqq\"", "fields are type,"),
        (&"x".repeat(1_001), "PR-0413", "1001 bytes; the limit is 1000", "shorten"),
    ] {
        let error = Template::parse(template).unwrap_err().report();
        for part in [code, what, hint] {
            assert!(error.contains(part), "{template:?}: {part:?} is not in\n{error}");
        }
    }
}

#[test]
fn a_template_that_can_render_an_empty_text_is_refused() {
    for template in ["", "{topic|}", "{topic|}{header.x|}"] {
        assert_eq!(Template::parse_filled(template).unwrap_err().code(), Code::TemplateSyntax, "{template}");
    }
    for template in ["a", "{topic}", "{topic|a}", "{topic|}-"] {
        Template::parse_filled(template).unwrap();
    }
}

#[test]
fn only_a_template_without_fields_is_literal() {
    assert_eq!(Template::parse("a{{b").unwrap().literal(), Some("a{b"));
    assert_eq!(Template::parse("").unwrap().literal(), Some(""));
    assert_eq!(Template::parse("a{type}").unwrap().literal(), None);
}

fn url(template: &str) -> Result<(Template, Option<Arc<str>>)> {
    Template::parse(template)?.into_url()
}

#[test]
fn a_value_in_a_url_is_always_one_path_segment_or_one_query_value() {
    for (value, encoded) in [
        ("42", "42"),
        ("a-b_c.d~e", "a-b_c.d~e"),
        ("../../admin/delete?all=1#", "..%2F..%2Fadmin%2Fdelete%3Fall%3D1%23"),
        ("%2e%2e", "%252e%252e"),
        ("a@evil.example", "a%40evil.example"),
        ("a\r\nhost: evil", "a%0D%0Ahost%3A%20evil"),
        ("a\\b", "a%5Cb"),
        ("1&admin=1+1;2", "1%26admin%3D1%2B1%3B2"),
        ("Grüße", "Gr%C3%BC%C3%9Fe"),
        ("\u{ff0f}\u{ff0e}", "%EF%BC%8F%EF%BC%8E"),
    ] {
        let event = Event::new("a", "").with_aggregate("Order", value);
        let (template, origin) = url("https://h.example/o/{aggregate_id}?q={aggregate_id}#x").unwrap();
        let mut text = String::new();
        assert!(template.render(&event, &mut text));
        assert_eq!(text, format!("https://h.example/o/{encoded}?q={encoded}#x"), "{value}");
        assert_eq!(origin.as_deref(), Some("https://h.example"));
    }
    let (template, _) = url("https://h.example/{header.missing|a/b}").unwrap();
    let mut text = String::new();
    assert!(template.render(&event(), &mut text));
    assert_eq!(text, "https://h.example/a%2Fb");
}

#[test]
fn the_host_belongs_to_the_rule_only_if_it_contains_no_value() {
    for (template, origin) in [
        ("https://h.example", Some("https://h.example")),
        ("HTTP://h.example:8080?q={id}", Some("HTTP://h.example:8080")),
        ("https://h.example/{type}/{id}", Some("https://h.example")),
        ("https://h.example#{id}", Some("https://h.example")),
        ("https://h.example{id}/", None),
        ("https://{header.tenant}/", None),
        ("https://{header.tenant}.h.example/hooks", None),
        ("https://h.example:{header.port}/hooks", None),
        ("{topic}", None),
        ("{header.callback|https://h.example/}", None),
    ] {
        assert_eq!(url(template).unwrap().1.as_deref(), origin, "{template}");
    }
}

#[test]
fn a_template_that_cannot_be_a_url_is_refused() {
    for template in [
        "",
        "orders",
        "orders.{type}",
        "ftp://h.example/{id}",
        "https:/h.example/{id}",
        "https:h.example/{id}",
        " https://h.example/{id}",
        "https:///{id}",
        "https://h.example\\{id}",
        "https://h.example/{id}\\",
        "https://",
        "https://?{id}",
        "{header.scheme}://h.example/",
        "{header.base}/hooks",
        "https://me@h.example/{id}",
        "https://{header.user}@h.example/",
        "https://{header.user}:pw@h.example/",
    ] {
        assert_eq!(url(template).unwrap_err().code(), Code::DestinationUrl, "{template}");
    }
}
