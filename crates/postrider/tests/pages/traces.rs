//! The page `docs/src/traces.md` describes every span.

use postrider::telemetry::SPANS;

const PAGE: &str = include_str!("../../../../docs/src/traces.md");

#[test]
fn the_page_has_a_table_with_the_fields_of_every_span() {
    for span in SPANS {
        let mut table = format!("| field of `{}` | content |\n|---|---|\n", span.name);
        for (name, content) in span.fields {
            table.push_str(&format!("| `{name}` | {content} |\n"));
        }
        assert!(PAGE.contains(&format!("{table}\n")), "docs/src/traces.md does not contain:\n{table}");
    }
}
